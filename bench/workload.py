"""The line that measured logs consist of."""

LINE = "2026-11-21 03:12:45 INFO  {metadata.Ingestion} processed table warehouse.public.orders rows=1048576 in 132 ms\n"

"""From a notification of S3 to catalog rows and a report."""

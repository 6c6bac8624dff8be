"""DynamoDB indexes of runs, segments and files, and the queries over them. S3 is the source of truth."""

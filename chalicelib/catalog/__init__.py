"""What exists, indexed in DynamoDB: runs and segments, files and the queries over them. S3 stays the truth."""

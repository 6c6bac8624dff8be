"""What exists: runs and segments, indexed in DynamoDB. S3 stays the truth; all of it can be rebuilt."""

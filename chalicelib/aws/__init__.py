"""boto3 adapters for the ports. No botocore exception leaves this package."""

"""boto3 behind the ports. Errors of botocore end here."""

"""What has been spent, durable before anything is published."""

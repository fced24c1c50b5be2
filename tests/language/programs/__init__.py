"""Programs that use the thread level in earnest, each with an independent reference."""

"""What stands behind `profile`: schedules and cycles, events and averages in torch's shape, handlers."""

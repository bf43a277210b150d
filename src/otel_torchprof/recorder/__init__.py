"""Recording this process: captures, the torch bridge, steps and schedules. Imports torch only to record."""

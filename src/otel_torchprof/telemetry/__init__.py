"""Everything that speaks OpenTelemetry: context, resource, sending. Importing it starts nothing."""

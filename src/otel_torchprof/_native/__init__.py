"""The compiled module `core` and its types; nothing else lives here."""

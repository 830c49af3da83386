"""AES-256-GCM for payloads, the data keys that encrypt them, and the master keys above those."""

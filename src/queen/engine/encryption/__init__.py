"""Encrypt and decrypt stored messages, and rotate master keys."""

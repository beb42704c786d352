"""Trust: sign-ins, approvals, the audit log, secrets and tokens."""

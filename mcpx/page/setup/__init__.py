"""The configuration as it is (`configuration`), and what changes it (`changing`), for `views/setup`."""

"""The client side of a tenant's machine: where documents come from and how they are sent."""

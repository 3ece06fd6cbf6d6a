"""Drive gains: from motor current to joint torque."""

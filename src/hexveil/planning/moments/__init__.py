"""Planning of means and variances: options, their checks, and the plan."""

"""CronJobs: schedules read and reckoned with, and the controller that starts, replaces and tidies up their runs."""

"""JobFlows and JobTemplates: jobs that start when others have come far enough."""

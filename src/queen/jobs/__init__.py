"""Jobs and workflows: a job is a message of an unordered queue that a named processor runs."""

from queen.jobs.runs import WorkflowHandle
from queen.jobs.workflows import Step, Workflow, execute_workflow

__all__ = ["Step", "Workflow", "WorkflowHandle", "execute_workflow"]

"""A workflow with ways for success and failure: a new user, and what follows from each step."""

import asyncio
from typing import Any

from worker_loop import working

from queen import Queen
from queen.jobs import Workflow, execute_workflow
from queen.wire.workflows import WorkflowPlace

ONBOARDING = Workflow(
    id="user-onboarding-workflow",
    name="User Onboarding",
    steps=[
        {
            "queue": "email-notifications",
            "job": "send-welcome-email",
            "data": {"userId": 123},
            "on_success": [
                {
                    "queue": "data-processing",
                    "job": "create-user-profile",
                    "data": {"userId": 123},
                    "on_success": [
                        {
                            "queue": "email-notifications",
                            "job": "send-profile-created",
                            "data": {"userId": 123},
                        },
                    ],
                    "on_failure": [
                        {
                            "queue": "notifications",
                            "job": "alert-admin",
                            "data": {"error": "profile-creation-failed", "userId": 123},
                        },
                    ],
                },
            ],
        },
    ],
    metadata={
        "createdBy": "system",
        "correlationId": "workflow-123",
        "tags": ["onboarding", "user"],
    },
)


def send_email(data: dict[str, Any], place: WorkflowPlace) -> dict[str, Any]:
    return {"to": data["userId"]}


def create_profile(data: dict[str, Any], place: WorkflowPlace) -> dict[str, Any]:
    return {"profile": data["userId"], "after": place.result_of("send-welcome-email")}


def alert_admin(data: dict[str, Any], place: WorkflowPlace) -> None:
    raise AssertionError("nothing failed")


async def main() -> None:
    processors = {
        "send-welcome-email": send_email,
        "create-user-profile": create_profile,
        "send-profile-created": send_email,
        "alert-admin": alert_admin,
    }
    queues = "email-notifications", "data-processing", "notifications"
    async with Queen.from_env() as queen, working(queen, processors, *queues):
        handle = await execute_workflow(queen, ONBOARDING)
        # Started again it is the same run: the id says so.
        assert (await execute_workflow(queen, ONBOARDING)).id == handle.id

        run = await handle.wait(timeout="30s")

        states = {step.name: step.state for step in run.steps}
        assert states == {
            "send-welcome-email": "completed",
            "create-user-profile": "completed",
            "send-profile-created": "completed",
            "alert-admin": "skipped",
        }
        print(run.name, run.state, await handle.result())
        await handle.delete()


asyncio.run(main())

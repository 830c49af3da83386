"""A workflow with steps for success and for failure: the registration of a user."""

import asyncio
from typing import Any

from queen import Queen
from queen.jobs import Job, QueueManager, Workflow

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

jobs = QueueManager(Queen.from_env())


@jobs.processor("email-notifications", name="send-welcome-email")
async def send_welcome(job: Job[dict[str, Any]]) -> dict[str, Any]:
    return {"to": job.data["userId"]}


@jobs.processor("data-processing", name="create-user-profile")
async def create_profile(job: Job[dict[str, Any]]) -> dict[str, Any]:
    assert job.workflow is not None
    return {"profile": job.data["userId"], "after": job.workflow.result_of("send-welcome-email")}


@jobs.processor("email-notifications", name="send-profile-created")
async def send_created(job: Job[dict[str, Any]]) -> dict[str, Any]:
    return {"told": job.data["userId"]}


@jobs.processor("notifications", name="alert-admin")
async def alert_admin(job: Job[dict[str, Any]]) -> None:
    raise AssertionError("nothing failed")


async def main() -> None:
    async with jobs.queen:
        await jobs.start_workers()
        handle = await jobs.execute_workflow(ONBOARDING)
        # Starting the same id again returns the same run.
        assert not (await jobs.execute_workflow(ONBOARDING)).is_new

        run = await handle.wait(timeout="30s")

        states = {step.name: step.state for step in run.steps}
        assert states == {
            "send-welcome-email": "completed",
            "create-user-profile": "completed",
            "send-profile-created": "completed",
            "alert-admin": "skipped",
        }
        assert await handle.result() == {"send-profile-created": {"told": 123}}
        print(run.name, run.state)
        await handle.delete()
        await jobs.shutdown()


asyncio.run(main())

"""A node without containers: plays the pods of engines on loopback, each a real `tenantry engine` or one that only looks ready.

The operator reaches them by an HTTP proxy that knows the names of their Services, as it would reach a cluster from outside.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tenantry.adapters.kubernetes.client.credentials import from_kubeconfig
from tenantry.adapters.kubernetes.client.http import MERGE_PATCH, Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.model.verdicts import Halt, NotFound
from tests.cluster.control_plane import Cluster
from tests.cluster.threads import Beside, beside
from tests.scenario.cli import COMMAND, environment

AGAIN_S = 0.3
BROKEN = "broken"
"""A version of engines whose image is not to be had."""
_SELECTOR = "app.kubernetes.io/name=tenantry-engine"
_TARGET = re.compile(rb"^\S+ http://engine\.([a-z0-9-]+)\.svc:8080/")
Object = Mapping[str, Any]


@dataclass
class Pod:
    """A pod that is played. port: of its engine, 0 for one that only looks ready; mounted: where what is mounted at a path is.

    process: of the container that runs now.
    """

    uid: str
    process: asyncio.subprocess.Process | None = None
    port: int = 0
    mounted: dict[str, Path] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    ended: bool = False

    async def end(self) -> None:
        self.ended = True
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.terminate()
            await self.process.wait()

    def here(self, value: str) -> str:
        """A path of the pod as it is on this machine; anything else as it is."""
        for path, folder in self.mounted.items():
            if value == path or value.startswith(f"{path}/"):
                return value.replace(path, str(folder), 1)
        return value


class Node(Beside):
    """Plays every pod of an engine from its creation to its deletion. real: with an engine behind it."""

    def __init__(self, cluster: Cluster, folder: Path, *, real: bool, volumes: bool = False) -> None:
        """volumes: are claims bound, as the controller of volumes does?"""
        super().__init__()
        self._volumes = volumes
        self._cluster = cluster
        self._folder = folder
        self._real = real
        self._pods: dict[tuple[str, str], Pod] = {}
        self._turns = count()
        self._starting: set[asyncio.Task[None]] = set()
        self.proxy = ""

    async def serve(self) -> None:
        server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        self.proxy = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._client = Client(from_kubeconfig(self._cluster.kubeconfig))
        watching = asyncio.create_task(self._watch())
        self.up.set()
        await self.ends.wait()
        watching.cancel()
        for task in self._starting:
            task.cancel()
        server.close()
        await asyncio.gather(*(pod.end() for pod in self._pods.values()))
        await self._client.close()

    async def _watch(self) -> None:
        path = path_of("v1", "Pod")
        while True:
            with suppress(Halt):
                found = await self._client.request("GET", path, query={"labelSelector": _SELECTOR})
                await self._sweep({_place(pod): pod for pod in found["items"]})
                version = found["metadata"]["resourceVersion"]
                query = {"watch": "1", "labelSelector": _SELECTOR, "resourceVersion": version, "timeoutSeconds": "60"}
                async for change in self._client.stream(path, query):
                    await self._seen(change["type"], change["object"])
            await asyncio.sleep(AGAIN_S)

    async def _sweep(self, there: Mapping[tuple[str, str], Object]) -> None:
        for place in set(self._pods) - set(there):
            await self._pods.pop(place).end()
        for pod in there.values():
            await self._seen("ADDED", pod)

    async def _seen(self, type_: str, pod: Object) -> None:
        if type_ not in ("ADDED", "MODIFIED", "DELETED"):
            return
        place, uid = _place(pod), pod["metadata"]["uid"]
        held = self._pods.get(place)
        if held is not None and (held.uid != uid or type_ == "DELETED"):
            await self._pods.pop(place).end()
            held = None
        if type_ == "DELETED":
            return
        if held is None:
            self._pods[place] = Pod(uid)
            self._begin(pod)

    def _begin(self, pod: Object) -> None:
        task = asyncio.create_task(self._start(pod, self._pods[_place(pod)]))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _start(self, pod: Object, played: Pod) -> None:
        if pod["spec"]["containers"][0]["image"].endswith(f":{BROKEN}"):
            await self._tell(pod, "Pending", ready=False)
            return
        if self._real:
            await self._prepare(pod, played)
            for container in pod["spec"].get("initContainers", ()):
                if not await self._run_first(pod, played, container):
                    return  # it was ended, as its pod was
            await self._start_engine(pod, played)
        if played.ended:
            return
        await self._tell(pod, "Running", ready=True)

    async def _tell(self, pod: Object, phase: str, *, ready: bool, first: Sequence[Object] = ()) -> None:
        waiting = {"waiting": {"reason": "ErrImageNeverPull", "message": "the image is not there"}}
        if first:
            waiting = {"waiting": {"reason": "PodInitializing"}}
        container = {
            "name": "engine",
            "image": "engine",
            "imageID": "",
            "ready": ready,
            "restartCount": 0,
            "state": {"running": {}} if ready else waiting,
        }
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"phase": phase, "conditions": [condition], "containerStatuses": [container]}
        status |= {"initContainerStatuses": list(first)} if first else {}
        path = path_of("v1", "Pod", pod["metadata"]["namespace"], pod["metadata"]["name"]) + "/status"
        while True:
            try:
                await self._client.request("PATCH", path, body={"status": status}, content_type=MERGE_PATCH)
            except NotFound:
                return
            except Halt:
                await asyncio.sleep(AGAIN_S)
            else:
                return

    async def _prepare(self, pod: Object, played: Pod) -> None:
        """The pod's own variables; what they say of mounted files is brought to folders."""
        container = pod["spec"]["containers"][0]
        mounted = await self._mounted(pod["metadata"]["namespace"], pod, played)
        played.mounted = {mount["mountPath"]: mounted[mount["name"]] for mount in container["volumeMounts"]}
        played.variables = {each["name"]: played.here(each["value"]) for each in container["env"]}

    async def _run_first(self, pod: Object, played: Pod, container: Object) -> bool:
        """Runs a container that must end well before the engine starts."""
        told = {"name": container["name"], "image": "engine", "imageID": "", "ready": False, "restartCount": 0}
        await self._tell(pod, "Pending", ready=False, first=[{**told, "state": {"running": {}}}])
        played.process = await self.spawn(pod["metadata"]["namespace"], played, container["args"])
        if await played.process.wait():
            return False
        done = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        await self._tell(pod, "Pending", ready=False, first=[{**told, "ready": True, "state": done}])
        return True

    async def spawn(
        self, namespace: str, played: Pod, arguments: Sequence[str], settings: Mapping[str, str] | None = None, **streams: int
    ) -> asyncio.subprocess.Process:
        """`tenantry` with those arguments, as it would be in that pod. settings: beside those of the pod."""
        with (self._folder / f"{namespace}.log").open("ab") as errors:
            kept: dict[str, Any] = {"stderr": errors, "stdout": asyncio.subprocess.PIPE, **streams}
            return await asyncio.create_subprocess_exec(
                *COMMAND,
                *map(played.here, arguments),
                env={**environment(), **played.variables, **(settings or {})},
                **kept,
            )

    def pod(self, namespace: str) -> Pod | None:
        """The first pod that is played there."""
        return self._pods.get((namespace, "engine-0"))

    def _answering(self, namespace: str) -> Pod | None:
        """One of the pods behind the Service, each in its turn."""
        ready = [pod for (space, _), pod in self._pods.items() if space == namespace and pod.port and not pod.ended]
        return ready[next(self._turns) % len(ready)] if ready else None

    async def _start_engine(self, pod: Object, played: Pod) -> None:
        namespace = pod["metadata"]["namespace"]
        command = pod["spec"]["containers"][0]["args"][0]  # an engine, or a pool of them
        arguments = (command, "--data", "/data", "--listen", "127.0.0.1:0")
        played.process = await self.spawn(namespace, played, arguments)
        if played.ended:  # meanwhile
            await played.end()
            return
        assert played.process.stdout is not None
        async for line in played.process.stdout:
            if found := re.search(rb"http://[^:]+:(\d+)", line):
                played.port = int(found[1])
                return
        raise AssertionError(f"the engine of {namespace} did not start")

    async def _claim(self, path: str, played: Pod) -> Object:
        """The claim of a pod, which waits for it as for a scheduler. Raises NotFound once the pod is ended."""
        while True:
            try:
                return await self._client.request("GET", path)
            except NotFound:
                if played.ended:
                    raise
                await asyncio.sleep(AGAIN_S)

    async def _mounted(self, namespace: str, pod: Object, played: Pod) -> dict[str, Path]:
        """The folder of each volume of the pod; a claim keeps its folder."""
        folders = {}
        for volume in pod["spec"]["volumes"]:
            name = volume["name"]
            if claim := volume.get("persistentVolumeClaim"):
                found = await self._claim(path_of("v1", "PersistentVolumeClaim", namespace, claim["claimName"]), played)
                volume = await bound(self._client, found) if self._volumes else f"claim-{found['metadata']['uid']}"
                folders[name] = self._folder / volume
                continue
            folders[name] = folder = self._folder / pod["metadata"]["uid"] / name
            folder.mkdir(parents=True)
            if source := volume.get("configMap"):
                found = await self._client.request("GET", path_of("v1", "ConfigMap", namespace, source["name"]))
                for key, text in found["data"].items():
                    (folder / key).write_text(text)
            if source := volume.get("secret"):
                found = await self._client.request("GET", path_of("v1", "Secret", namespace, source["secretName"]))
                for item in source["items"]:
                    (folder / item["path"]).write_bytes(base64.b64decode(found["data"][item["key"]]))
        return folders

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the proxy: to the engine that its first request names."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            named = _TARGET.match(head)
            pod = self._answering(named[1].decode()) if named else None
            if pod is None:
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", pod.port)
            far_writer.write(head)
            await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def _place(pod: Object) -> tuple[str, str]:
    """The namespace and the name of a pod."""
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(1 << 16):
            writer.write(chunk)
            await writer.drain()
    writer.close()


async def bound(client: Client, claim: Object) -> str:
    """The name of the volume to which a claim is bound now, as the controller of volumes does: the one that it names, or new."""
    metadata = claim["metadata"]
    held = {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
    name = claim["spec"].get("volumeName")
    if name:
        path = path_of("v1", "PersistentVolume", "", name)
        await client.request("PATCH", path, body={"spec": {"claimRef": held}}, content_type=MERGE_PATCH)
        return str(name)
    name = f"pv-{metadata['uid']}"
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/nowhere"},
        "persistentVolumeReclaimPolicy": "Delete",
        "claimRef": held,
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    await client.request("POST", path_of("v1", "PersistentVolume"), body=volume)
    path = path_of("v1", "PersistentVolumeClaim", metadata["namespace"], metadata["name"])
    await client.request("PATCH", path, body={"spec": {"volumeName": name}}, content_type=MERGE_PATCH)
    return name


@contextmanager
def node(cluster: Cluster, folder: Path, *, real: bool, volumes: bool = False) -> Iterator[Node]:
    """A node that plays pods until the end of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with beside(Node(cluster, folder, real=real, volumes=volumes), "node", within_s=60) as played:
        yield played

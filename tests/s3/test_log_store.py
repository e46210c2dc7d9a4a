"""The log store on S3, in a JVM without Spark: who commits a version that another driver takes first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import boto3
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError
from tests.s3.s3_server import FaultyS3, faulty_s3

from tidemark.platform.jvm.jars import jar_paths, tidemark_home
from tidemark.platform.jvm.java import find_java
from tidemark.platform.jvm.log_store import CLASS, log_store_jar

DELTAS_OWN = "io.delta.storage.S3SingleDriverLogStore"
BUCKET = "lake-of-the-store"


@pytest.fixture(scope="module")
def s3() -> Iterator[FaultyS3]:
    with faulty_s3() as running:
        client(running).create_bucket(Bucket=BUCKET)
        yield running


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    jars = jar_paths("spark", "s3")
    store = log_store_jar(jars, folder=tidemark_home() / "jars")
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    shipped = Path(spec.origin).parent / "jars"
    port = launch_gateway(
        jarpath=str(next(shipped.glob("py4j-*.jar"))),
        classpath=os.pathsep.join([str(store), *map(str, jars), f"{shipped}/*"]),
        java_path=str(find_java().executable),
        die_on_exit=True,
        redirect_stdout=None,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    yield gateway.jvm
    gateway.shutdown()


def client(s3: FaultyS3) -> Any:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=s3.endpoint, **keys)


@pytest.mark.guarantee(
    "bad day: two drivers commit one version on s3a",
    "fault: A second driver commits the same version on S3 → "
    "The later one is refused, and stops fenced; no commit is overwritten",
)
@pytest.mark.parametrize(
    ("store", "refused", "kept"),
    [
        pytest.param(CLASS, True, b"theirs\n", id="ours"),
        pytest.param(DELTAS_OWN, False, b"ours\n", id="delta's own"),
    ],
)
def test_a_version_that_another_driver_took_first_is_refused_when_the_store_is_ours(
    s3: FaultyS3, jvm: Any, store: str, refused: bool, kept: bytes
) -> None:
    """Delta's own store, which overwrites it, shows that the test would notice."""
    conf = jvm.org.apache.hadoop.conf.Configuration()
    for name, value in {
        "endpoint": s3.endpoint,
        "endpoint.region": "us-east-1",
        "access.key": "test",
        "secret.key": "test",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
    }.items():
        conf.set(f"fs.s3a.{name}", value)
    key = f"{store}/_delta_log/{1:020d}.json"
    # We looked, saw no such version, and are about to write it.
    s3.before_commit = lambda: client(s3).put_object(Bucket=BUCKET, Key=key, Body=b"theirs\n")
    log_store = _made(jvm, store, conf)
    path = jvm.org.apache.hadoop.fs.Path(f"s3a://{BUCKET}/{key}")
    lines = jvm.java.util.ArrayList()
    lines.add("ours")
    if refused:
        with pytest.raises(Py4JJavaError) as raised:
            log_store.write(path, lines.iterator(), False, conf)
        assert raised.value.java_exception.getClass().getName() == "java.nio.file.FileAlreadyExistsException"
    else:
        log_store.write(path, lines.iterator(), False, conf)
    assert client(s3).get_object(Bucket=BUCKET, Key=key)["Body"].read() == kept


def _made(jvm: Any, name: str, conf: Any) -> Any:
    found = jvm
    for part in name.split("."):
        found = getattr(found, part)
    return found(conf)

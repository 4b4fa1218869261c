"""Files of a Kintsugi cluster, without a mount: see docs/python.md of Kintsugi.

    import kintsugi

    with kintsugi.connect() as cluster:
        with cluster.open("/greeting", "w") as file:
            file.write("Hello\\n")
        print(cluster.listdir("/"))
"""

from kintsugi.atomic import AtomicFile
from kintsugi.cluster import Cluster, Usage, connect
from kintsugi.directory import DirectoryEntry, DirectoryScan
from kintsugi.file import File

__version__ = "0.2.0"
__all__ = ["AtomicFile", "Cluster", "DirectoryEntry", "DirectoryScan", "File", "Usage", "connect"]

#!/usr/bin/python3
"""Tables in a cluster: pandas, PyArrow and DuckDB read and write kintsugi://. Who is not installed is skipped."""

import importlib.util
import unittest

from live import ClusterTest, live, require

require(["fsspec", "pandas"], "python3-fsspec, python3-pandas")

import fsspec  # noqa: E402
import pandas  # noqa: E402

from kintsugi.fs import KintsugiFileSystem  # noqa: E402

fsspec.register_implementation("kintsugi", KintsugiFileSystem, clobber=True)
setUpModule, tearDownModule = live.start, live.stop


def needs(name):
    """Skips a test without a module that Debian 12 does not have."""
    return unittest.skipIf(importlib.util.find_spec(name) is None, f"{name} is not installed: only pip has it")


class TableTest(ClusterTest):
    def setUp(self):
        super().setUp()
        self.table = pandas.DataFrame({"city": ["Köln", "Łódź", None] * 1000, "people": range(3000), "share": [0.5, -1.25, 3.0] * 1000})
        self.fs = fsspec.filesystem("kintsugi")

    def url(self, name):
        return f"kintsugi://{self.path(name)}"


class Pandas(TableTest):
    def test_csv_is_written_and_read_plain_compressed_and_in_parts(self):
        for name in ("t.csv", "t.csv.gz", "t.csv.xz"):
            self.table.to_csv(self.url(name), index=False)
            pandas.testing.assert_frame_equal(pandas.read_csv(self.url(name)), self.table)
        self.assertIn("Köln,0,0.5", live.command("cat", self.path("t.csv")))
        with pandas.read_csv(self.url("t.csv"), chunksize=1000) as parts:
            self.assertEqual([len(part) for part in parts], [1000] * 3)
        self.assertEqual(len(self.cluster.listdir(self.directory)), 3, "nothing else is left")

    def test_json_and_pickles_are_written_and_read(self):
        self.table.to_json(self.url("t.json"), orient="records", lines=True)
        pandas.testing.assert_frame_equal(pandas.read_json(self.url("t.json"), orient="records", lines=True), self.table)
        self.table.to_pickle(self.url("t.pickle"))
        pandas.testing.assert_frame_equal(pandas.read_pickle(self.url("t.pickle")), self.table)

    def test_storage_options_reach_the_connection(self):
        self.table.to_csv(self.url("t.csv"), storage_options={"umask": 0o077})
        self.assertEqual(self.cluster.stat(self.path("t.csv")).st_mode & 0o777, 0o600)

    def test_a_table_that_is_missing_is_a_missing_file(self):
        with self.assertRaises(FileNotFoundError):
            pandas.read_csv(self.url("no.csv"))

    @needs("pyarrow")
    def test_parquet_is_written_and_read_whole_by_columns_and_in_partitions(self):
        self.table.to_parquet(self.url("t.parquet"))
        pandas.testing.assert_frame_equal(pandas.read_parquet(self.url("t.parquet")), self.table)
        self.assertEqual(list(pandas.read_parquet(self.url("t.parquet"), columns=["share"])), ["share"])
        self.table.dropna().to_parquet(self.url("parts"), partition_cols=["city"])
        self.assertEqual(pandas.read_parquet(self.url("parts"), filters=[("city", "==", "Köln")])["people"].tolist(), list(range(0, 3000, 3)))


class Arrow(TableTest):
    @needs("pyarrow")
    def test_a_dataset_is_written_listed_and_scanned(self):
        import pyarrow
        import pyarrow.dataset

        pyarrow.dataset.write_dataset(pyarrow.Table.from_pandas(self.table), self.path("set"), format="parquet", filesystem=self.fs, max_rows_per_file=1000,
                                      max_rows_per_group=1000)
        self.assertEqual(len(self.cluster.listdir(self.path("set"))), 3)
        scanned = pyarrow.dataset.dataset(self.path("set"), filesystem=self.fs).to_table(filter=pyarrow.dataset.field("people") < 10)
        self.assertEqual(sorted(scanned["people"].to_pylist()), list(range(10)))


class Duck(TableTest):
    @needs("duckdb")
    def test_queries_read_and_copy_csv_and_parquet(self):
        import duckdb

        self.table.to_csv(self.url("t.csv"), index=False)
        duck = duckdb.connect()
        duck.register_filesystem(self.fs)
        self.assertEqual(duck.sql(f"SELECT sum(people) FROM read_csv('{self.url('*.csv')}')").fetchall(), [(sum(range(3000)),)])
        duck.sql(f"COPY (FROM read_csv('{self.url('t.csv')}')) TO '{self.url('t.parquet')}' (FORMAT parquet)")
        self.assertEqual(duck.sql(f"SELECT count(*) FROM '{self.url('t.parquet')}'").fetchall(), [(3000,)])

    def test_the_calls_that_duckdb_makes_of_a_filesystem_are_answered(self):
        """What its class PythonFilesystem calls for a COPY through a temporary file and a query, with URLs throughout."""
        with self.fs.open(self.url("tmp_t.csv"), "wb") as file:
            file.seek(0)
            self.assertEqual(file.write(b"a,b\n1,2\n"), 8)
            file.flush()
            self.assertEqual(file.tell(), 8)
        self.assertFalse(self.fs.isfile(self.url("t.csv")))
        self.fs.mv(self.url("tmp_t.csv"), self.url("t.csv"))
        self.assertEqual([self.fs.unstrip_protocol(path) for path in self.fs.glob(self.url("*.csv"))], [self.url("t.csv")])
        self.assertEqual(self.fs.size(self.url("t.csv")), 8)
        self.assertGreater(self.fs.modified(self.url("t.csv")).timestamp(), 0)
        with self.fs.open(self.url("t.csv"), "rb") as file:
            file.seek(4)
            self.assertEqual(file.read(100), b"1,2\n")
        self.fs.mkdir(self.url("d"))
        self.assertTrue(self.fs.isdir(self.url("d")))
        self.assertEqual([(entry["name"], entry["type"]) for entry in self.fs.ls(self.url(""))], [(self.path("d"), "directory"), (self.path("t.csv"), "file")])
        self.fs.touch(self.url("t.csv"), truncate=True)
        self.assertEqual(self.fs.size(self.url("t.csv")), 0)
        self.fs.rm(self.url("t.csv"))
        self.fs.rm(self.url("d"), recursive=True)
        self.assertEqual(self.fs.ls(self.url("")), [])


if __name__ == "__main__":
    unittest.main()

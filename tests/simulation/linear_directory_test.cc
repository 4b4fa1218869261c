// Histories of a directory that can be explained, and such that cannot.
#include "tests/simulation/swarm/linear_directory.h"

#include "tests/expect_ok.h"

namespace kintsugi::simulation {
namespace {

using Kind = LinearDirectory::Kind;

struct History : LinearDirectory {
  Handle put(uint32_t name, uint32_t content) {
    return begin({.kind = Kind::kPut, .name = name, .content = content});
  }
  Handle rename(uint32_t from, uint32_t to) {
    return begin({.kind = Kind::kRename, .name = from, .other = to});
  }
  Handle remove(uint32_t name) { return begin({.kind = Kind::kRemove, .name = name}); }
  Handle read(uint32_t name) { return begin({.kind = Kind::kRead, .name = name}); }
  Handle list() { return begin({.kind = Kind::kList}); }

  /// An operation that nothing else meets.
  Status put_now(uint32_t name, uint32_t content) { return changed(put(name, content), Code::kOk); }
  Status sees(uint32_t name, uint32_t content) { return saw(read(name), content); }
};

TEST(LinearDirectory, ReadsReturnWhatWasPutLast) {
  History history;
  KINTSUGI_EXPECT_OK(history.sees(0, 0));
  KINTSUGI_EXPECT_OK(history.put_now(0, 7));
  KINTSUGI_EXPECT_OK(history.sees(0, 7));
  KINTSUGI_EXPECT_OK(history.put_now(0, 8));
  EXPECT_EQ(history.sees(0, 7).code(), Code::kCorrupt);
}

TEST(LinearDirectory, AFileThatWasPutIsNotMissing) {
  History history;
  KINTSUGI_EXPECT_OK(history.put_now(1, 7));
  EXPECT_EQ(history.sees(1, 0).code(), Code::kCorrupt);
}

TEST(LinearDirectory, AReadMaySeeEitherSideOfAPutThatItMeets) {
  for (const uint32_t seen : {7u, 8u}) {
    History history;
    KINTSUGI_EXPECT_OK(history.put_now(0, 7));
    const auto put = history.put(0, 8);
    const auto read = history.read(0);
    KINTSUGI_EXPECT_OK(history.changed(put, Code::kOk));
    KINTSUGI_EXPECT_OK(history.saw(read, seen));
  }
}

TEST(LinearDirectory, AReadSeesWhatWasThereInTheMiddleOfIt) {
  History history;
  const auto read = history.read(0);
  KINTSUGI_EXPECT_OK(history.put_now(0, 7));
  KINTSUGI_EXPECT_OK(history.put_now(0, 8));
  KINTSUGI_EXPECT_OK(history.saw(read, 7));
}

TEST(LinearDirectory, WhatOneReadSawALaterOneCannotHaveSeenBefore) {
  History history;
  KINTSUGI_EXPECT_OK(history.put_now(0, 7));
  const auto put = history.put(0, 8);
  KINTSUGI_EXPECT_OK(history.sees(0, 8));
  EXPECT_EQ(history.sees(0, 7).code(), Code::kCorrupt) << "the put had happened when the first read returned";
  (void)put;
}

TEST(LinearDirectory, AnUnknownPutMayHappenLaterButOnlyOnce) {
  History history;
  KINTSUGI_EXPECT_OK(history.put_now(0, 7));
  history.unknown(history.put(0, 8));
  KINTSUGI_EXPECT_OK(history.sees(0, 7));
  KINTSUGI_EXPECT_OK(history.sees(0, 8));
  KINTSUGI_EXPECT_OK(history.put_now(0, 9));
  EXPECT_EQ(history.sees(0, 8).code(), Code::kCorrupt);
}

TEST(LinearDirectory, AnUnknownPutMayNeverHappen) {
  History history;
  history.unknown(history.put(0, 8));
  KINTSUGI_EXPECT_OK(history.put_now(0, 9));
  KINTSUGI_EXPECT_OK(history.sees(0, 9));
}

TEST(LinearDirectory, ARenameIsSeenAsAWhole) {
  for (const uint32_t seen : {0b01u, 0b10u}) {
    History history;
    KINTSUGI_EXPECT_OK(history.put_now(0, 7));
    const auto rename = history.rename(0, 1);
    KINTSUGI_EXPECT_OK(history.saw(history.list(), seen));
    KINTSUGI_EXPECT_OK(history.changed(rename, Code::kOk));
    KINTSUGI_EXPECT_OK(history.sees(1, 7));
  }
  for (const uint32_t seen : {0b00u, 0b11u}) {
    History history;
    KINTSUGI_EXPECT_OK(history.put_now(0, 7));
    (void)history.rename(0, 1);
    EXPECT_EQ(history.saw(history.list(), seen).code(), Code::kCorrupt);
  }
}

TEST(LinearDirectory, OutcomesOfChangesMustFit) {
  History history;
  KINTSUGI_EXPECT_OK(history.changed(history.remove(0), Code::kNotFound));
  KINTSUGI_EXPECT_OK(history.put_now(0, 7));
  EXPECT_EQ(history.changed(history.remove(0), Code::kNotFound).code(), Code::kCorrupt);
}

TEST(LinearDirectory, TwoRemovesOfOneFileDoNotBothSucceed) {
  History history;
  KINTSUGI_EXPECT_OK(history.put_now(0, 7));
  const auto one = history.remove(0);
  const auto other = history.remove(0);
  KINTSUGI_EXPECT_OK(history.changed(one, Code::kOk));
  EXPECT_EQ(history.changed(other, Code::kOk).code(), Code::kCorrupt);
}

TEST(LinearDirectory, SaysWhatMayBeThere) {
  History history;
  KINTSUGI_EXPECT_OK(history.put_now(0, 7));
  history.unknown(history.put(0, 8));
  EXPECT_EQ(history.possible(0), (std::set<uint32_t>{7, 8}));
  EXPECT_EQ(history.possible(1), (std::set<uint32_t>{0}));
}

}  // namespace
}  // namespace kintsugi::simulation

#include "client/lib/files/file_attributes.h"

#include <gtest/gtest.h>

namespace kintsugi::client {
namespace {

constexpr uint64_t kNumber = 7;

proto::Attributes attributes(int64_t changed_ns, uint64_t size) {
  proto::Attributes attributes;
  attributes.set_inode(kNumber);
  attributes.set_changed_ns(changed_ns);
  attributes.set_size(size);
  return attributes;
}

TEST(FileAttributes, AnOlderAnswerNeverReplacesANewerOneWhoeverBringsIt) {
  FileAttributes file(attributes(10, 1));
  const uint64_t since = file.heard();
  EXPECT_EQ(file.adopt(attributes(30, 3)), FileAttributes::Adopted::kChanged);
  EXPECT_EQ(file.adopt(attributes(20, 2)), FileAttributes::Adopted::kOlder);
  file.take_answer(attributes(20, 2), since);
  file.take_written(attributes(20, 2));
  EXPECT_EQ(file.size(), 3u);
  EXPECT_EQ(file.adopt(attributes(30, 3)), FileAttributes::Adopted::kSame);
  EXPECT_EQ(file.changed_by_others_ns(), 30);
  file.take_answer(attributes(40, 4), file.heard());
  EXPECT_EQ(file.changed_by_others_ns(), 30) << "that was changed here";
}

TEST(FileAttributes, AnAnswerDuringWhichNothingWasHeardIsTakenWhateverItsTime) {
  FileAttributes file(attributes(10, 1));
  file.take_answer(attributes(5, 2), file.heard());
  EXPECT_EQ(file.size(), 2u) << "the clock of the metaserver was set back";
}

TEST(FileAttributes, WhatWasChangedHereIsComparedWithWhatWasToldAndNotWithTheClockOfThisMachine) {
  FileAttributes file(attributes(10, 1));
  file.set_here(attributes(1'000, 9));
  EXPECT_EQ(file.size(), 1u) << "the stored size stays";
  EXPECT_EQ(file.adopt(attributes(20, 2)), FileAttributes::Adopted::kOlder)
      << "it may not know of the change";
  file.take_written(attributes(20, 2));
  EXPECT_EQ(file.size(), 2u);

  file.set_here(attributes(1'000, 2));
  file.doubt_own_changes();
  EXPECT_EQ(file.adopt(attributes(30, 3)), FileAttributes::Adopted::kChanged);
}

TEST(FileAttributes, OfAnotherInodeAreNotTaken) {
  FileAttributes file(attributes(10, 1));
  proto::Attributes other = attributes(20, 2);
  other.set_inode(kNumber + 1);
  EXPECT_EQ(file.adopt(other), FileAttributes::Adopted::kOlder);
  file.take_answer(other, file.heard());
  file.take_written(other);
  EXPECT_EQ(file.size(), 1u);
}

}  // namespace
}  // namespace kintsugi::client

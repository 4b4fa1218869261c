// Names, times, and what a new inode gets, as Linux has it: inode_init_owner(), setattr_should_drop_suidgid(), path limits.
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "common/posix/file_time.h"
#include "common/posix/names.h"
#include "common/posix/set_ids.h"

namespace kintsugi::posix {
namespace {

constexpr uint32_t kOwn = 100, kShared = 200;

TEST(Names, HaveOneTo255BytesAndNoSlash) {
  for (const std::string& name : {std::string("a"), std::string(255, 'x'), std::string("..."),
                                  std::string(".a"), std::string("\xff\x01 ")})
    EXPECT_TRUE(check_name(name).ok()) << name;
  EXPECT_EQ(check_name(std::string(256, 'x')).code(), Code::kNameTooLong);
  for (const std::string& name : {std::string(), std::string("."), std::string(".."), std::string("a/b"),
                                  std::string("/"), std::string("a\0b", 3)})
    EXPECT_EQ(check_name(name).code(), Code::kInvalidArgument) << name;
}

TEST(Names, ALinkPointsToAPathOfAtMost4095Bytes) {
  EXPECT_TRUE(check_target("../a/./b").ok());
  EXPECT_TRUE(check_target(std::string(4095, '/')).ok());
  EXPECT_EQ(check_target(std::string(4096, '/')).code(), Code::kNameTooLong);
  EXPECT_EQ(check_target("").code(), Code::kNotFound);
}

TEST(FileTimes, BeforeAndAfter1970AreSecondsAndAPositiveRest) {
  struct Case {
    int64_t ns, seconds, rest;
  };
  for (const Case& each :
       {Case{0, 0, 0}, Case{1, 0, 1}, Case{-1, -1, 999'999'999}, Case{-1'500'000'000, -2, 500'000'000},
        Case{-2'000'000'000, -2, 0}, Case{1'700'000'000'123'456'789, 1'700'000'000, 123'456'789}}) {
    const FileTime time = file_time(each.ns);
    EXPECT_EQ(time.seconds, each.seconds) << each.ns;
    EXPECT_EQ(time.nanoseconds, each.rest) << each.ns;
    EXPECT_EQ(ns_since_1970(time), each.ns);
  }
}

TEST(FileTimes, ThatHaveNoNumberBecomeTheFirstOrTheLastThatHasOne) {
  using Limits = std::numeric_limits<int64_t>;
  EXPECT_EQ(ns_since_1970({9'223'372'036, 854'775'807}), Limits::max());
  for (const FileTime& later : {FileTime{9'223'372'036, 854'775'808}, FileTime{9'223'372'037, 0},
                                FileTime{Limits::max(), 999'999'999}})
    EXPECT_EQ(ns_since_1970(later), Limits::max()) << later.seconds;
  for (const FileTime& earlier : {FileTime{-9'300'000'000, 0}, FileTime{Limits::min(), 0}})
    EXPECT_EQ(ns_since_1970(earlier), Limits::min()) << earlier.seconds;
  EXPECT_EQ(file_time(Limits::min()).seconds, -9'223'372'037);
}

TEST(SetIds, AFileThatIsWrittenToLendsNobodysRightsButKeepsItsMandatoryLocks) {
  EXPECT_EQ(without_set_ids(06755), 0755u);
  EXPECT_EQ(without_set_ids(06745), 02745u) << "the group does not execute it";
  EXPECT_EQ(without_set_ids(01777), 01777u);
}

struct Case {
  const char* what;
  Caller maker;
  uint32_t directory_mode;
  uint32_t mode;
  bool is_directory;
  NewInode expected;
};

TEST(SetIds, ADirectoryWithTheGroupsBitHandsItsGroupOn) {
  const Caller stranger{.uid = 1, .gid = kOwn, .groups = {}},
      member{.uid = 1, .gid = kOwn, .groups = {kShared}};
  const Caller root = Caller::root();
  const Case cases[] = {
      {"without the bit", member, 0777, 06755, false, {kOwn, 06755}},
      {"a directory without the bit", member, 0777, 0755, true, {kOwn, 0755}},
      {"a directory", stranger, 02777, 0700, true, {kShared, 02700}},
      {"a file of a member", member, 02777, 02755, false, {kShared, 02755}},
      {"a file of a stranger", stranger, 02777, 02755, false, {kShared, 0755}},
      {"a file of root", root, 02777, 02755, false, {kShared, 02755}},
      {"a stranger's file that the group does not execute", stranger, 02777, 02745, false, {kShared, 02745}},
      {"more than permissions", member, 0777, 0100644, false, {kOwn, 0644}},
  };
  for (const Case& one : cases) {
    const NewInode made =
        new_inode(one.maker, {.owner = 9, .group = kShared, .mode = one.directory_mode, .is_directory = true},
                  one.mode, one.is_directory);
    EXPECT_EQ(made.group, one.expected.group) << one.what;
    EXPECT_EQ(made.mode, one.expected.mode) << one.what << std::oct << made.mode;
  }
}

}  // namespace
}  // namespace kintsugi::posix

// The rules of acl(5), and of Linux where that says nothing, as a table: who, what is wanted, what is granted.
#include "common/posix/access_list.h"

#include <gtest/gtest.h>

#include "tests/expect_ok.h"

namespace kintsugi::posix {
namespace {

constexpr uint32_t kOwner = 1000, kOwningGroup = 100, kNamed = 1001, kNamedGroup = 200, kStranger = 1002;

using Item = AccessList::Item;

std::string list_of(std::vector<Item> items) {
  AccessList list;
  list.items = std::move(items);
  return list.serialise();
}

/// user::rw-, user:1001:rw-, group::r--, group:200:rwx, mask::MASK, other::r--.
std::string full_list(uint16_t mask) {
  return list_of({{AccessList::kOwner, 6},
                  {AccessList::kUser, 6, kNamed},
                  {AccessList::kOwningGroup, 4},
                  {AccessList::kGroup, 7, kNamedGroup},
                  {AccessList::kMask, mask},
                  {AccessList::kOther, 4}});
}

struct Case {
  const char* what;
  Caller caller;
  uint32_t mode;  ///< its group bits are the mask, as the kernel keeps them
  std::optional<std::string> list;
  uint32_t granted;  ///< of rwx, each asked for alone
};

TEST(AccessList, GrantsWhatTheTableSays) {
  const std::vector<Case> cases{
      {"root reads and writes anything, and executes what nobody may execute not", {0, 0, {}}, 0600, {}, 6},
      {"root executes what anybody may execute", {0, 0, {}}, 0601, {}, 7},
      {"the owner has the bits of the owner", {kOwner, 1, {}}, 0640, {}, 6},
      {"the owner has no more where the group has", {kOwner, kOwningGroup, {}}, 0070, {}, 0},
      {"the group has the bits of the group", {kStranger, kOwningGroup, {}}, 0640, {}, 4},
      {"so has a supplementary group", {kStranger, 1, {5, kOwningGroup}}, 0640, {}, 4},
      {"the group has no more where others have", {kStranger, kOwningGroup, {}}, 0607, {}, 0},
      {"others have the bits of others", {kStranger, 1, {}}, 0641, {}, 1},
      {"the list gives the owner what the mode says", {kOwner, 1, {}}, 0674, full_list(7), 6},
      {"a named user has its item", {kNamed, 1, {}}, 0674, full_list(7), 6},
      {"a named user has it through the mask", {kNamed, 1, {}}, 0644, full_list(4), 4},
      {"a named user has nothing of its groups", {kNamed, kNamedGroup, {}}, 0674, full_list(7), 6},
      {"a named group has its item", {kStranger, kNamedGroup, {}}, 0674, full_list(7), 7},
      {"a named group has it through the mask", {kStranger, kNamedGroup, {}}, 0654, full_list(5), 5},
      {"the owning group has its item and not the mask",
       {kStranger, kOwningGroup, {}},
       0674,
       full_list(7),
       4},
      {"of several groups one suffices", {kStranger, kOwningGroup, {kNamedGroup}}, 0674, full_list(7), 7},
      {"who is in a group has nothing as one of the others",
       {kStranger, kNamedGroup, {}},
       0624,
       full_list(2),
       2},
      {"others have theirs without the mask", {kStranger, 1, {}}, 0614, full_list(1), 4},
      {"a list whose mask grants nothing is passed over: a named user is one of the others",
       {kNamed, 1, {}},
       0604,
       full_list(0),
       4},
      {"and a named group too", {kStranger, kNamedGroup, {}}, 0604, full_list(0), 4},
      {"and the owning group has the bits of the mode", {kStranger, kOwningGroup, {}}, 0604, full_list(0), 0},
      {"what is no list is passed over", {kNamed, 1, {}}, 0641, "no list", 1},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    const Permissions permissions{kOwner, kOwningGroup, one.mode, false};
    uint32_t granted = 0;
    for (const uint32_t bit : {kMayRead, kMayWrite, kMayExecute})
      if (permissions.allow(one.caller, bit, one.list)) granted |= bit;
    EXPECT_EQ(granted, one.granted);
    if (granted != 0) EXPECT_TRUE(permissions.allow(one.caller, granted, one.list));
    EXPECT_EQ(permissions.allow(one.caller, 7, one.list), granted == 7);
  }
}

TEST(AccessList, OneGroupMustGrantAllThatIsWanted) {
  const std::string list = list_of({{AccessList::kOwner, 6},
                                    {AccessList::kOwningGroup, 4},
                                    {AccessList::kGroup, 2, kNamedGroup},
                                    {AccessList::kMask, 7},
                                    {AccessList::kOther, 0}});
  const Permissions permissions{kOwner, kOwningGroup, 0670, false};
  const Caller in_both{kStranger, kOwningGroup, {kNamedGroup}};
  EXPECT_TRUE(permissions.allow(in_both, kMayRead, list));
  EXPECT_TRUE(permissions.allow(in_both, kMayWrite, list));
  EXPECT_FALSE(permissions.allow(in_both, kMayRead | kMayWrite, list));
}

TEST(AccessList, IsAskedForOnlyWhereItMatters) {
  const Permissions usual{kOwner, kOwningGroup, 0640, false}, masked{kOwner, kOwningGroup, 0604, false};
  EXPECT_FALSE(usual.ask_the_list({0, 0, {}}));
  EXPECT_FALSE(usual.ask_the_list({kOwner, 1, {}}));
  EXPECT_TRUE(usual.ask_the_list({kNamed, 1, {}}));
  EXPECT_FALSE(masked.ask_the_list({kNamed, 1, {}}));
}

TEST(AccessList, RootSearchesADirectoryThatNobodyMaySearch) {
  EXPECT_TRUE((Permissions{kOwner, kOwningGroup, 0600, true}.allow({0, 0, {}}, kMayExecute, {})));
}

TEST(AccessList, IsReadAndWrittenAsTheKernelHasIt) {
  const std::string bytes = full_list(5);
  const auto list = AccessList::parse(bytes);
  ASSERT_TRUE(list) << list.error();
  EXPECT_EQ(list->serialise(), bytes);
  EXPECT_EQ(list->mode(), 0654u);
  EXPECT_FALSE(list->is_minimal());
  EXPECT_FALSE(AccessList::parse(bytes.substr(0, bytes.size() - 1)));
  EXPECT_FALSE(AccessList::parse(""));
  EXPECT_FALSE(AccessList::parse(list_of({{AccessList::kOwner, 6}, {AccessList::kOther, 4}})));
}

}  // namespace
}  // namespace kintsugi::posix

#include "client/lib/leases/names_meanwhile.h"

#include <optional>

#include <gtest/gtest.h>

namespace kintsugi::client {
namespace {

TEST(NamesMeanwhile, AreThoseThatWereGivenSinceTheCallBegan) {
  NamesMeanwhile names;
  names.give(1, "before");
  const NamesMeanwhile::Call call(names);
  EXPECT_FALSE(call.may_have_given(1));
  names.give(1, "a");
  const NamesMeanwhile::Call later(names);
  EXPECT_TRUE(call.may_have_given(1, "a"));
  EXPECT_TRUE(call.may_have_given(1)) << "any";
  EXPECT_FALSE(call.may_have_given(1, "before"));
  EXPECT_FALSE(call.may_have_given(2, "a"));
  EXPECT_FALSE(later.may_have_given(1, "a")) << "that was before it began";
}

TEST(NamesMeanwhile, OfACallGoOnToBeKnownWhenOthersHaveEnded) {
  NamesMeanwhile names;
  std::optional<NamesMeanwhile::Call> first(std::in_place, names);
  const NamesMeanwhile::Call call(names);
  names.give(1, "a");
  first.reset();
  EXPECT_TRUE(call.may_have_given(1, "a"));
}

TEST(NamesMeanwhile, AreAnyWhenThereAreMoreThanAreRemembered) {
  NamesMeanwhile names;
  const NamesMeanwhile::Call call(names);
  for (size_t i = 0; i < NamesMeanwhile::kMost; ++i)
    names.give(1, "a");
  EXPECT_FALSE(call.may_have_given(2));
  names.give(1, "a");
  EXPECT_TRUE(call.may_have_given(2)) << "one was forgotten";
  const NamesMeanwhile::Call later(names);
  EXPECT_FALSE(later.may_have_given(1));
}

}  // namespace
}  // namespace kintsugi::client

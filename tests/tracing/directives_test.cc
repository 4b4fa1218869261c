// A file of directives is parsed, or refused with its line.
#include "tracing/flow/directives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/draws.h"

namespace kintsugi::flow {
namespace {

TEST(Directives, AFileIsRead) {
  const auto parsed = parse_directives(
      "# queues\n"
      "begin  disk::Queue::put:entry arg2 as disk-request   # who puts it\n"
      "\n"
      "end\tstd::map<int, Entry const*>::take(int, bool):exit ret as disk-request\r\n"
      "use op(.resume):entry arg1 as operation\n"
      "begin kv::Log::append:exit ret as batch shared\n"
      "end kv::Log::commit:entry arg6 as batch\n"
      "idle asio::detail::epoll_reactor::run(long, bool)");
  ASSERT_TRUE(parsed) << parsed.error();
  ASSERT_EQ(parsed->directives.size(), 5u);
  const Directive& put = parsed->directives[0];
  EXPECT_EQ(put.scope, Kind::kBegin);
  EXPECT_EQ(put.function, "disk::Queue::put");
  EXPECT_EQ(put.point, Point::kEntry);
  EXPECT_EQ(put.argument, 2);
  const Directive& take = parsed->directives[1];
  EXPECT_EQ(take.scope, Kind::kEnd);
  EXPECT_EQ(take.function, "std::map<int, Entry const*>::take(int, bool)");
  EXPECT_EQ(take.point, Point::kExit);
  EXPECT_EQ(take.argument, kReturnValue);
  EXPECT_EQ(take.attribute, put.attribute);
  EXPECT_EQ(parsed->directives[2].scope, Kind::kUse);
  EXPECT_EQ(parsed->directives[2].function, "op(.resume)");
  ASSERT_EQ(parsed->attributes.size(), 3u);
  EXPECT_EQ(parsed->attributes[0].name, "disk-request");
  EXPECT_FALSE(parsed->attributes[0].shared);
  EXPECT_EQ(parsed->attributes[2].name, "batch");
  EXPECT_TRUE(parsed->attributes[2].shared) << "one line says it for all";
  ASSERT_EQ(parsed->idle.size(), 1u);
  EXPECT_EQ(parsed->idle[0].function, "asio::detail::epoll_reactor::run(long, bool)");
  EXPECT_EQ(parsed->idle[0].line, 8u);
  EXPECT_EQ(put.line, 2u);
  EXPECT_EQ(take.line, 4u);
}

TEST(Directives, AnAttributeMayBeCalledShared) {
  const auto parsed = parse_directives("begin f:entry arg1 as shared\nend f:exit ret as shared shared");
  ASSERT_TRUE(parsed) << parsed.error();
  ASSERT_EQ(parsed->attributes.size(), 1u);
  EXPECT_EQ(parsed->attributes[0].name, "shared");
  EXPECT_TRUE(parsed->attributes[0].shared);
}

TEST(Directives, AWrongLineIsNamed) {
  const std::pair<const char*, const char*> wrong[] = {
      {"start f:entry arg1 as a", "\"start\" is neither"},
      {"begni f:entry arg1 as a", "(did you mean \"begin\"?)"},
      {"begin f:entri arg1 as a", "(did you mean \"entry\"?)"},
      {"begin f:entry arg7 as a", "\"arg7\" is no value"},
      {"begin f:entry arg as a", "\"arg\" is no value"},
      {"begin f:entry ret as a", "at the exit only"},
      {"begin f:exit arg1 as a", "at the entry only"},
      {"begin f arg1 as a", "FUNCTION:entry"},
      {"begin f:middle arg1 as a", "FUNCTION:entry"},
      {"begin :entry arg1 as a", "no name"},
      {"begin f:entry arg1", "as ATTRIBUTE"},
      {"begin f:entry arg1 as", "as ATTRIBUTE"},
      {"begin", "as ATTRIBUTE"},
      {"begin as a", "FUNCTION:entry"},
      {"idle", "name of a function"},
      {"others", "others takes the name of a function"},
      {"aside", "aside takes the name of a function"},
  };
  for (const auto& [line, message] : wrong) {
    const auto parsed = parse_directives(std::string("# good\n") + line + "\n");
    ASSERT_FALSE(parsed) << line;
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(parsed.error().message(), testing::StartsWith("line 2: ")) << line;
    EXPECT_THAT(parsed.error().message(), testing::HasSubstr(message)) << line;
  }
}

TEST(Directives, ThereAreLimits) {
  std::string many;
  for (size_t i = 0; i < kMostDirectives; ++i)
    many += "idle f\n";
  EXPECT_TRUE(parse_directives(many));
  EXPECT_EQ(parse_directives(many + "idle f\n").error().code(), Code::kLimitExceeded);
  EXPECT_EQ(parse_directives(std::string(kMostBytesOfDirectives + 1, ' ')).error().code(),
            Code::kLimitExceeded);
}

TEST(Directives, GarbageIsAnErrorOrDirectives) {
  const std::string words[] = {"begin", "end",    "use", "idle", "f:entry", "g:exit", "arg1", "ret",
                               "as",    "shared", "a",   ":",    "#",       "\n",     " ",    "\xff"};
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    Draws draws(seed);
    std::string text;
    for (size_t i = draws.below(12); i > 0; --i)
      text += words[draws.below(std::size(words))] + (draws.below(4) ? " " : "");
    const auto parsed = parse_directives(text);
    if (!parsed) continue;
    for (const Directive& directive : parsed->directives) {
      EXPECT_LT(directive.attribute, parsed->attributes.size());
      EXPECT_FALSE(directive.function.empty());
    }
  }
}

}  // namespace
}  // namespace kintsugi::flow

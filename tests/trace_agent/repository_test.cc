// What is found in a binary: sleds, names, and who calls whom.
#include "tests/trace_agent/rig.h"
#include "tracing/repository/call_graph.h"

namespace kintsugi::tracing {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

struct Repository : Traced {
  static uint32_t function(const std::string& name) {
    const auto found = image().functions_named(name);
    EXPECT_TRUE(found) << name;
    return found ? found->front() : 1;
  }
  static std::vector<std::string> callees(const std::string& of) {
    std::vector<std::string> names;
    for (const uint32_t callee : image().calls().callees_of(function(of)))
      names.push_back(name(callee));
    return names;
  }
};

TEST_F(Repository, KnowsWhoCallsWhom) {
  EXPECT_THAT(callees("outer"), ::testing::UnorderedElementsAre("middle", "leaf"));
  EXPECT_THAT(callees("subject::middle"), ::testing::ElementsAre("leaf"));
  EXPECT_THAT(callees("beside"), IsEmpty());
  EXPECT_THAT(callees("passes_on"), ::testing::ElementsAre("throws"));
  EXPECT_THAT(callees("tail_call"), ::testing::ElementsAre("tail_target"));
}

TEST_F(Repository, KnowsWhatACoroutineDoesLaterFromItsFirstPart) {
  const auto parts = image().functions_named("count_up");
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->size(), 3);  // with .resume and .destroy
  EXPECT_THAT(callees("use_numbers"), Contains("count_up"));
  EXPECT_THAT(callees("count_up"), Contains("count_up.resume"));
}

TEST_F(Repository, KnowsWhichFunctionsStandInTablesAndWhoCallsByThem) {
  std::vector<std::string> taken;
  for (const uint32_t each : image().calls().taken)
    taken.push_back(name(each));
  EXPECT_THAT(taken, Contains("Square::corners"));
  EXPECT_THAT(taken, Contains("count_up.resume"));
  EXPECT_THAT(taken, Not(Contains("beside")));
  EXPECT_NE(image().calls().indirect[function("by_table") - 1], 0);
  EXPECT_EQ(image().calls().indirect[function("middle") - 1], 0);
}

TEST_F(Repository, NamesFunctionsWithoutTypes) {
  EXPECT_EQ(short_name("_ZN8kintsugi11chunkserver12ChunkService4pingEv"), "chunkserver::ChunkService::ping");
  EXPECT_EQ(short_name("_ZN8kintsugi11chunkserver12ChunkService4pingEv.resume"),
            "chunkserver::ChunkService::ping.resume");
  EXPECT_EQ(short_name("_ZNSt6vectorIiSaIiEE9push_backEOi"), "std::vector::push_back");
  EXPECT_EQ(short_name("_ZN8kintsugi12_GLOBAL__N_14leafEv"), "leaf");
  EXPECT_EQ(short_name("_ZN8kintsugi3fooIiEEvT_"), "foo");
  EXPECT_EQ(short_name("_ZlsRSoRKN8kintsugi6StatusE"), "operator<<");
  EXPECT_EQ(short_name("_ZNK8kintsugi4LessclEii"), "Less::operator()");
  EXPECT_EQ(short_name("main"), "main");
  EXPECT_EQ(short_name(""), "");
}

TEST_F(Repository, FindsFunctionsByTheEndsOfTheirNames) {
  EXPECT_TRUE(image().functions_named("leaf"));
  EXPECT_TRUE(image().functions_named("subject::leaf"));
  EXPECT_FALSE(image().functions_named("eaf"));
  EXPECT_FALSE(image().functions_named("other::leaf"));
}

TEST_F(Repository, RefusesFilesThatAreNoBinaries) {
  const std::string garbage(4096, '\x7f');
  EXPECT_FALSE(ElfImage::parse(std::as_bytes(std::span(garbage))));
  EXPECT_FALSE(ElfImage::parse({}));
  const auto file = MappedFile::open("/proc/self/exe");
  ASSERT_TRUE(file);
  for (const size_t length : {size_t{64}, size_t{4096}, file->bytes().size() - 1})
    EXPECT_FALSE(ElfImage::parse(file->bytes().first(length))) << length;
  EXPECT_FALSE(MappedFile::open("/proc/self/none"));
}

TEST_F(Repository, SaysThatABinaryHasNoSleds) {
  const auto file = MappedFile::open("/bin/true");
  ASSERT_TRUE(file);
  const auto elf = ElfImage::parse(file->bytes());
  ASSERT_TRUE(elf);
  const auto sleds = read_sleds(*elf);
  ASSERT_FALSE(sleds);
  EXPECT_EQ(sleds.error().code(), Code::kNotSupported);
}

}  // namespace
}  // namespace kintsugi::tracing

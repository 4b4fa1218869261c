// What is found in a binary: sleds, names, and who calls whom.
#include <algorithm>
#include <fstream>
#include <limits>

#include <elf.h>

#include "tests/trace_agent/rig.h"
#include "tracing/repository/call_graph.h"

namespace kintsugi::tracing {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

/// A copy of this program that can be changed.
class Copy {
 public:
  Copy() {
    const auto file = MappedFile::open("/proc/self/exe");
    EXPECT_TRUE(file);
    if (file) bytes_.assign(file->bytes().begin(), file->bytes().end());
  }
  ElfImage parse() const {
    const auto image = ElfImage::parse(bytes_);
    EXPECT_TRUE(image);
    return image ? *image : ElfImage();
  }
  CallGraph calls() const {
    const ElfImage image = parse();
    const auto sleds = read_sleds(image);
    EXPECT_TRUE(sleds);
    return sleds ? find_calls(image, *sleds) : CallGraph();
  }
  /// Takes the symbols away, as packages do.
  void strip() {
    for (Elf64_Shdr& each : headers())
      if (each.sh_type == SHT_SYMTAB) each.sh_type = SHT_NULL;
  }
  /// The bytes of a section of this copy.
  std::span<std::byte> section(std::string_view name) {
    const auto found = parse().section(name);
    EXPECT_TRUE(found) << name;
    if (!found) return {};
    return std::span(bytes_).subspan(static_cast<size_t>(found->bytes.data() - bytes_.data()),
                                     found->bytes.size());
  }
  void write(const std::string& path) const {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()));
  }
  void shorten(std::string_view name, uint64_t bytes) {
    const auto offset = static_cast<uint64_t>(section(name).data() - bytes_.data());
    for (Elf64_Shdr& each : headers())
      if (each.sh_offset == offset && each.sh_type != SHT_NOBITS) each.sh_size = bytes;
  }

 private:
  std::span<Elf64_Shdr> headers() {
    const auto& header = *reinterpret_cast<const Elf64_Ehdr*>(bytes_.data());
    return {reinterpret_cast<Elf64_Shdr*>(bytes_.data() + header.e_shoff), header.e_shnum};
  }

  std::vector<std::byte> bytes_;
};

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
  static std::vector<std::string> taken() {
    std::vector<std::string> names;
    for (const uint32_t each : image().calls().taken)
      names.push_back(name(each));
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
  EXPECT_THAT(taken(), Contains("Square::corners"));
  EXPECT_THAT(taken(), Contains("count_up.resume"));
  EXPECT_THAT(taken(), Not(Contains("unreached")));
  EXPECT_NE(image().calls().indirect[function("by_table") - 1], 0);
  EXPECT_EQ(image().calls().indirect[function("middle") - 1], 0);
}

TEST_F(Repository, LooksThroughFunctionsWithoutSleds) {
  EXPECT_FALSE(image().functions_named("library_outer"));
  EXPECT_THAT(callees("calls_library"), ::testing::ElementsAre("behind_library"));
  EXPECT_EQ(image().calls().indirect[function("calls_library") - 1], 0);
  EXPECT_THAT(callees("calls_library_by_table"), IsEmpty());
  EXPECT_NE(image().calls().indirect[function("calls_library_by_table") - 1], 0);
  EXPECT_THAT(taken(), Contains("behind_table"))
      << "a function without sleds that stands in a table calls it";
  EXPECT_THAT(taken(), Not(Contains("behind_library")));
}

TEST_F(Repository, KnowsWhereAllFunctionsBeginAlsoWithoutSymbols) {
  Copy copy;
  const std::vector<uint64_t> known = copy.parse().unwound_functions();
  EXPECT_TRUE(std::ranges::is_sorted(known));
  for (const ElfImage::Symbol& symbol : copy.parse().functions())
    if (symbol.name.find("kintsugi7subject") != std::string_view::npos)
      EXPECT_TRUE(std::ranges::binary_search(known, symbol.address)) << symbol.name;
  const CallGraph whole = copy.calls();
  copy.strip();
  EXPECT_THAT(copy.parse().functions(), IsEmpty());
  EXPECT_EQ(copy.parse().unwound_functions(), known);
  const CallGraph stripped = copy.calls();
  EXPECT_EQ(stripped.callees, whole.callees);
  EXPECT_EQ(stripped.begin, whole.begin);
  EXPECT_EQ(stripped.indirect, whole.indirect);
  EXPECT_EQ(stripped.taken, whole.taken);
}

/// Installed daemons are stripped, and another package has their symbols.
TEST_F(Repository, NamesFunctionsOfAStrippedBinaryByItsDebugSymbols) {
  const TraceDirectory debug;
  Copy whole, stripped;
  stripped.strip();
  const auto names = [&](const Copy& copy) {
    const ElfImage image = copy.parse();
    return mangled_names(image, *read_sleds(image), debug.path());
  };
  const auto missing = names(stripped);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  EXPECT_THAT(missing.error().message(), ::testing::HasSubstr(debug.path() + "/.build-id/"));
  EXPECT_THAT(missing.error().message(), ::testing::HasSubstr("install the package with its debug symbols"));

  std::string id;
  for (const char byte : whole.parse().build_id())
    id += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  const std::string path =
      fmt::format("{}/.build-id/{}/{}.debug", debug.path(), id.substr(0, 2), id.substr(2));
  whole.write(path);
  const auto found = names(stripped), expected = names(whole);
  ASSERT_TRUE(found) << found.error();
  EXPECT_EQ(*found, *expected);
  EXPECT_THAT(*found, Contains(::testing::HasSubstr("subject5outer")));

  whole.section(".note.gnu.build-id").back() ^= std::byte{1};
  whole.write(path);
  const auto other = names(stripped);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Code::kConflict);
}

TEST_F(Repository, TakesNothingFromATableOfFunctionsThatIsGarbage) {
  constexpr size_t kNumberAt = 8, kTableAt = 12, kEntryBytes = 8;
  constexpr std::string_view kTable = ".eh_frame_hdr";
  Copy copy;
  const size_t room = (copy.section(kTable).size() - kTableAt) / kEntryBytes;
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  std::memcpy(copy.section(kTable).data() + kNumberAt, &kMost, sizeof(kMost));
  EXPECT_THAT(copy.parse().unwound_functions(), SizeIs(room)) << "more are told than there is room for";
  copy.shorten(kTable, kTableAt + kEntryBytes - 1);
  EXPECT_THAT(copy.parse().unwound_functions(), IsEmpty());
  copy.shorten(kTable, kTableAt - 1);
  EXPECT_THAT(copy.parse().unwound_functions(), IsEmpty());

  // Addresses that lie nowhere are no functions: then those with sleds are all that is known.
  Copy filled;
  std::ranges::fill(filled.section(kTable).subspan(kTableAt), std::byte{0x7f});
  const auto outer = [](const CallGraph& calls) {
    const auto found = calls.callees_of(function("outer"));
    return std::vector<uint32_t>(found.begin(), found.end());
  };
  EXPECT_EQ(outer(filled.calls()), outer(image().calls()));
  filled.section(kTable)[0] = std::byte{2};
  EXPECT_THAT(filled.parse().unwound_functions(), IsEmpty()) << "of a version that nobody knows";
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
  EXPECT_THAT(elf->functions(), IsEmpty()) << "it is stripped";
  EXPECT_THAT(elf->unwound_functions(), Not(IsEmpty()));
  const auto sleds = read_sleds(*elf);
  ASSERT_FALSE(sleds);
  EXPECT_EQ(sleds.error().code(), Code::kNotSupported);
}

}  // namespace
}  // namespace kintsugi::tracing

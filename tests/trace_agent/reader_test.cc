// What a reader makes of files that are no traces, or not whole.
#include <fstream>

#include "common/base/crc32c.h"
#include "tests/trace_agent/rig.h"

namespace kintsugi::tracing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Reader : Traced {
  /// The bytes of a small trace.
  std::string bytes() {
    const Trace trace = record("outer", subject::outer);
    std::string found;
    for (const auto& file : std::filesystem::directory_iterator(directory_.path())) {
      std::ifstream in(file.path(), std::ios::binary);
      found.assign(std::istreambuf_iterator<char>(in), {});
    }
    return found;
  }
  static Status parse(const std::string& bytes) {
    const auto trace = parse_trace(std::as_bytes(std::span(bytes)));
    return trace ? Status() : trace.error();
  }
  template <class T>
  static void put(std::string& bytes, size_t offset, T value) {
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
  }
  static void expect_corrupt(const std::string& bytes, std::string_view what) {
    const Status status = parse(bytes);
    EXPECT_EQ(status.code(), Code::kCorrupt) << what;
    EXPECT_THAT(status.message(), Not(HasSubstr("\n")));
  }
};

TEST_F(Reader, TakesATraceThatEndedAndHoldsOnlyWhatWasUsed) {
  const std::string whole = bytes();
  KINTSUGI_EXPECT_OK(parse(whole));
  EXPECT_LE(whole.size(), kBlocksOffset + 2 * kTraceBlockBytes);
}

TEST_F(Reader, RefusesWhatIsNoTrace) {
  expect_corrupt("", "nothing");
  expect_corrupt(std::string(1 << 20, '\0'), "zeros");
  expect_corrupt(std::string(1 << 20, '\xff'), "ones");
  std::ifstream self("/proc/self/exe", std::ios::binary);
  expect_corrupt(std::string(std::istreambuf_iterator<char>(self), {}), "a program");
}

TEST_F(Reader, RefusesATraceOfAnotherFormat) {
  std::string changed = bytes();
  put(changed, offsetof(FileHeader, version), kFormatVersion + 1);
  EXPECT_THAT(parse(changed).message(), HasSubstr("format 2"));
}

TEST_F(Reader, RefusesEveryTruncation) {
  const std::string whole = bytes();
  for (const size_t length : {size_t{1}, sizeof(FileHeader), kHeaderBytes, kBlocksOffset - 1, kBlocksOffset,
                              whole.size() - kTraceBlockBytes, whole.size() - 1})
    expect_corrupt(whole.substr(0, length), std::to_string(length));
  expect_corrupt(whole + "more", "too long");
}

TEST_F(Reader, RefusesAnyChangeOfTheHeader) {
  const std::string whole = bytes();
  for (size_t i = 0; i < offsetof(FileHeader, crc) + sizeof(uint32_t); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    expect_corrupt(changed, std::to_string(i));
  }
}

TEST_F(Reader, RefusesDamagedBlocksAndRecords) {
  const std::string whole = bytes();
  const auto with = [&](size_t offset, auto value) {
    std::string changed = whole;
    put(changed, offset, value);
    expect_corrupt(changed, std::to_string(offset));
  };
  with(kBlocksOffset + offsetof(BlockHeader, thread), kMostThreads + 1);
  with(kBlocksOffset + offsetof(BlockHeader, count), kRecordsOfABlock + 1);
  const size_t record = kBlocksOffset + sizeof(BlockHeader);
  with(record + offsetof(Record, function), uint32_t{0});
  with(record + offsetof(Record, function), uint32_t{1} << 30);
  with(record + offsetof(Record, kind), Kind::kNone);
  with(record + offsetof(Record, kind), Kind::kCount);
  with(record + offsetof(Record, flags), uint8_t{0x80});
  with(kThreadsOffset + offsetof(ThreadEntry, depth), kMostDepth + 1);
  with(kThreadsOffset + offsetof(ThreadEntry, name), uint64_t{0x0101010101010101});
  with(offsetof(FileHeader, latest), uint64_t{1} << 63);
}

TEST_F(Reader, TakesAPathWithLettersOfAnyLanguage) {
  std::string changed = bytes();
  constexpr char kPath[] = "/home/j\xc3\xbcrgen/x";
  std::memcpy(changed.data() + offsetof(FileHeader, program), kPath, sizeof(kPath));
  put(changed, offsetof(FileHeader, crc),
      crc32c(std::as_bytes(std::span(changed)).first(offsetof(FileHeader, crc))));
  KINTSUGI_EXPECT_OK(parse(changed));
}

TEST_F(Reader, SaysThatAFileIsNotThere) {
  const auto trace = read_trace(directory_.path() + "/none.trace");
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code(), Code::kNotFound);
  EXPECT_FALSE(read_trace("/proc/self"));
}

}  // namespace
}  // namespace kintsugi::tracing

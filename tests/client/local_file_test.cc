// Local files as the ends of transfers.
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/local_daemon.h"
#include "client/cli/local_sink.h"
#include "client/cli/local_source.h"
#include "common/runtime/production/run.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLarge = LocalSink::kKeptBytes + 1;

class LocalFiles : public testing::Test {
 protected:
  LocalFiles() {
    std::string name = (fs::temp_directory_path() / "kintsugi-files-XXXXXX").string();
    directory = ::mkdtemp(name.data());
  }
  ~LocalFiles() override {
    threads.join();
    fs::remove_all(directory);
  }
  template <class T>
  T wait(asio::awaitable<T> task) {
    return runtime::run_on(runtime, std::move(task));
  }
  /// A whole file by way of a sink.
  Status write(const std::string& path, const std::string& text, bool replace, uint64_t bytes = kLarge) {
    KINTSUGI_ASSIGN(const auto sink, LocalSink::create(path, bytes, replace, threads));
    const std::array<std::span<const std::byte>, 1> range{std::as_bytes(std::span(text))};
    KINTSUGI_TRY(wait(sink->write(0, range)));
    return wait(sink->finish(0644, 0));
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
  }
  std::string directory;
  runtime::ProductionRuntime runtime;
  asio::thread_pool threads{2};
};

TEST_F(LocalFiles, SinkPutsTheWholeFileAtItsPlaceWithModeAndTime) {
  const std::string path = directory + "/out";
  auto sink = LocalSink::create(path, kLarge, false, threads);
  ASSERT_TRUE(sink);
  const std::string a = "hello ", b = "world";
  const std::array<std::span<const std::byte>, 2> ranges{std::as_bytes(std::span(a)),
                                                         std::as_bytes(std::span(b))};
  ASSERT_EQ(wait((*sink)->write(0, ranges)), Status{});
  EXPECT_FALSE(fs::exists(path));
  ASSERT_EQ(wait((*sink)->finish(0640, 1'700'000'000'123'456'789)), Status{});
  EXPECT_EQ(*read_file(path), "hello world");
  auto source = LocalSource::open(path, threads);
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->mode(), 0640u);
  EXPECT_EQ((*source)->modified_ns(), 1'700'000'000'123'456'789);
  EXPECT_EQ(LocalSink::create(path, kLarge, false, threads).error().code(), Code::kAlreadyExists);
}

TEST_F(LocalFiles, TimesBefore1970AndIn1970ItselfAndInTheFarFutureAreKept) {
  const std::string path = directory + "/file";
  KINTSUGI_ASSERT(write(path, "x", true).ok());
  for (const timespec& time : {timespec{-2, 500'000'000}, timespec{0, 0}, timespec{4'000'000'000, 1}}) {
    const timespec both[2] = {time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), both, 0), 0);
    const auto source = LocalSource::open(path, threads);
    ASSERT_TRUE(source);
    const int64_t modified = (*source)->modified_ns();
    EXPECT_NE(modified, 0) << "0 would mean the current time";
    EXPECT_LE(std::abs(modified - (time.tv_sec * 1'000'000'000 + time.tv_nsec)), 1) << time.tv_sec;
    const auto sink = LocalSink::create(directory + "/copy", kLarge, true, threads);
    ASSERT_TRUE(sink);
    ASSERT_EQ(wait((*sink)->finish(0644, modified)), Status{}) << time.tv_sec;
    struct stat copied{};
    ASSERT_EQ(::stat((directory + "/copy").c_str(), &copied), 0);
    EXPECT_EQ(copied.st_mtim.tv_sec, time.tv_sec);
  }
}

TEST_F(LocalFiles, AFileOfAYearThatHasNoNumberIsReadAllTheSame) {
  const std::string path = directory + "/file";
  KINTSUGI_ASSERT(write(path, "x", true).ok());
  const timespec far[2] = {{10'000'000'000, 0}, {10'000'000'000, 0}};  // 2286
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), far, 0), 0);
  struct stat kept{};
  ASSERT_EQ(::stat(path.c_str(), &kept), 0);
  if (kept.st_mtim.tv_sec != far[1].tv_sec) GTEST_SKIP() << "the file system has no such year";
  const auto source = LocalSource::open(path, threads);
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->modified_ns(), std::numeric_limits<int64_t>::max());
}

TEST_F(LocalFiles, SinkMakesASmallFileWhenItIsFinishedAlsoOneThatTurnsOutLarge) {
  const std::string path = directory + "/out";
  const std::string large(3 * LocalSink::kKeptBytes, 'x');
  for (const std::string& text : {std::string(), std::string("small"), large}) {
    ASSERT_EQ(write(path, text, true, 5), Status{});
    EXPECT_EQ(*read_file(path), text);
  }
  EXPECT_EQ(write(path, "other", false, 5).code(), Code::kAlreadyExists);
  EXPECT_EQ(*read_file(path), large);
  EXPECT_EQ(write(directory + "/none/out", "x", false, 5).code(), Code::kNotFound);
  EXPECT_EQ(files(), 1u);
}

TEST_F(LocalFiles, SinkKeepsTheOrderOfWritesWhenAFileOutgrowsItsMemory) {
  const std::string path = directory + "/out";
  auto sink = LocalSink::create(path, 1, false, threads);
  ASSERT_TRUE(sink);
  std::string all;
  for (int i = 0; i < 5; ++i) {
    const std::string part(LocalSink::kKeptBytes / 3, static_cast<char>('a' + i));
    const std::array<std::span<const std::byte>, 1> range{std::as_bytes(std::span(part))};
    ASSERT_EQ(wait((*sink)->write(all.size(), range)), Status{});
    all += part;
  }
  ASSERT_EQ(wait((*sink)->finish(0644, 0)), Status{});
  EXPECT_EQ(*read_file(path), all);
}

TEST_F(LocalFiles, SinkThatIsNotFinishedLeavesNothing) {
  {
    ASSERT_TRUE(LocalSink::create(directory + "/out", kLarge, false, threads));
  }
  EXPECT_TRUE(fs::is_empty(directory));
}

TEST_F(LocalFiles, SourceWhoseSizeIsZeroByStatIsReadToItsEnd) {
  const std::string path = "/proc/self/cmdline";
  auto source = LocalSource::open(path, threads);
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->size(), std::nullopt);
  std::string all(4096, 0);
  const std::array<std::span<std::byte>, 1> range{std::as_writable_bytes(std::span(all))};
  const auto got = wait((*source)->read(0, range));
  ASSERT_TRUE(got);
  all.resize(*got);
  EXPECT_FALSE(all.empty());
  EXPECT_EQ(all, *read_file(path));

  std::ofstream(directory + "/empty").close();
  auto empty = LocalSource::open(directory + "/empty", threads);
  ASSERT_TRUE(empty);
  EXPECT_EQ((*empty)->size(), 0u);
  // What cannot be read is no empty file.
  EXPECT_FALSE(LocalSource::open("/proc/self/mem", threads));
}

TEST_F(LocalFiles, SourceFillsRangesInOrderAndEndsWithTheFile) {
  const std::string path = directory + "/in";
  std::ofstream(path) << "0123456789";
  auto source = LocalSource::open(path, threads);
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->size(), 10u);
  std::array<std::byte, 4> a{}, b{};
  const std::array<std::span<std::byte>, 2> ranges{std::span(a), std::span(b)};
  EXPECT_EQ(*wait((*source)->read(0, ranges)), 8u);
  EXPECT_EQ(static_cast<char>(b[0]), '4');
  EXPECT_EQ(*wait((*source)->read(8, ranges)), 2u);
  EXPECT_EQ(LocalSource::open(directory, threads).error().code(), Code::kIsDirectory);
  EXPECT_EQ(LocalSource::open(directory + "/nope", threads).error().code(), Code::kNotFound);
}

TEST_F(LocalFiles, SinkReplacesAFileOnlyWhenItShallAndLeavesNoOtherName) {
  const std::string path = directory + "/out";
  ASSERT_EQ(write(path, "old", false), Status{});
  auto late = LocalSink::create(directory + "/late", kLarge, false, threads);
  ASSERT_TRUE(late);
  ASSERT_EQ(write(directory + "/late", "first", false), Status{});
  EXPECT_EQ(wait((*late)->finish(0644, 0)).code(), Code::kAlreadyExists) << "somebody made it meanwhile";
  late->reset();
  EXPECT_EQ(*read_file(directory + "/late"), "first");
  ASSERT_EQ(write(path, "new", true), Status{});
  EXPECT_EQ(*read_file(path), "new");
  EXPECT_EQ(write(directory + "/none/out", "x", false).code(), Code::kNotFound);
  EXPECT_EQ(files(), 2u);
}

TEST_F(LocalFiles, SinkWritesAFileWhoseNameIsAsLongAsANameCanBe) {
  const std::string path = directory + "/" + std::string(255, 'n');
  ASSERT_EQ(write(path, "old", false), Status{});
  ASSERT_EQ(write(path, "new", true), Status{});
  EXPECT_EQ(*read_file(path), "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(LocalFiles, SourceStopsWaitingForAPipeWhenItIsCancelled) {
  const std::string path = directory + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const Descriptor writer(::open(path.c_str(), O_RDWR | O_CLOEXEC));  // so that the pipe never ends
  ASSERT_EQ(::write(writer.get(), "abcd", 4), 4);
  const Descriptor cancelled(::eventfd(0, EFD_CLOEXEC));
  const int before = ::dup(STDIN_FILENO);
  ASSERT_EQ(::dup2(writer.get(), STDIN_FILENO), STDIN_FILENO);
  auto source = LocalSource::open("-", threads, cancelled.get());
  ASSERT_TRUE(source);
  std::array<std::byte, 4> bytes{};
  const std::array<std::span<std::byte>, 1> range{std::span(bytes)};
  EXPECT_EQ(*wait((*source)->read(0, range)), 4u);
  std::thread canceller([&] {
    std::this_thread::sleep_for(100ms);  // the read below waits by then, or finds it cancelled already
    const uint64_t one = 1;
    EXPECT_EQ(::write(cancelled.get(), &one, sizeof one), ssize_t{sizeof one});
  });
  EXPECT_EQ(wait((*source)->read(4, range)).error().code(), Code::kCancelled);
  canceller.join();
  ::dup2(before, STDIN_FILENO);
  ::close(before);
}

}  // namespace
}  // namespace kintsugi::cli

// Root reads a trace of another user, and nothing that this user has put in its place.
#include "client/cli/trace_file.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

class TraceFile : public testing::Test {
 protected:
  TraceFile() { fs::create_directory(directory_); }
  ~TraceFile() override { fs::remove_all(directory_); }
  std::string path(const std::string& name) const { return directory_ / name; }
  std::string made(const std::string& name) const {
    std::ofstream(path(name)) << "records";
    return path(name);
  }
  static Code code_of(const std::string& path, uid_t user = ::geteuid()) {
    const auto opened = open_trace_of(path, user);
    return opened ? Code::kOk : opened.error().code();
  }

  const fs::path directory_ =
      fs::temp_directory_path() / ("kintsugi-trace-file-" + std::to_string(::getpid()));
};

TEST_F(TraceFile, OfItsUserIsReadAlsoWhenItsNameIsAnothers) {
  const auto file = open_trace_of(made("trace"), ::geteuid());
  ASSERT_TRUE(file) << file.error();
  fs::rename(path("trace"), path("moved"));
  std::string read;
  std::ifstream(path_of(*file)) >> read;
  EXPECT_EQ(read, "records");
}

TEST_F(TraceFile, ThatIsALinkAFifoOrADirectoryIsRefusedAtOnce) {
  fs::create_symlink(made("trace"), path("link"));
  EXPECT_FALSE(open_trace_of(path("link"), ::geteuid()));
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(code_of(path("fifo")), Code::kInvalidArgument);
  EXPECT_EQ(code_of(directory_), Code::kInvalidArgument);
  EXPECT_EQ(code_of(path("none")), Code::kNotFound);
}

TEST_F(TraceFile, OfAnotherUserIsRefused) {
  EXPECT_EQ(code_of(made("trace"), ::geteuid() + 1), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kintsugi::cli

// The lines of source code that `kintsugi diagnose --slice` shows.
#include "client/cli/source_slice.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

class SourceSlice : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kintsugi-slice-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory = name;
    fs::create_directories(directory + "/tree/chunkserver/store");
    std::ofstream file(directory + "/tree/chunkserver/store/reader.cc");
    for (int i = 1; i <= 9; ++i)
      file << "line " << i << "\n";
    std::ofstream(directory + "/secret") << "not a source\n";
  }
  void TearDown() override { fs::remove_all(directory); }
  Result<std::string> lines(const std::string& file, uint32_t line, uint32_t around) const {
    return source_lines(directory + "/tree", file, line, around);
  }

  std::string directory;
};

TEST_F(SourceSlice, ShowsTheLinesAroundAPlaceWhereverItWasBuilt) {
  const std::string expected = "      4  line 4\n>     5  line 5\n      6  line 6\n";
  for (const char* file :
       {"chunkserver/store/reader.cc", "/home/builder/kintsugi/chunkserver/store/reader.cc",
        "../chunkserver/store/reader.cc"}) {
    const auto shown = lines(file, 5, 1);
    ASSERT_TRUE(shown) << file << ": " << shown.error();
    EXPECT_EQ(*shown, expected);
  }
  EXPECT_EQ(*lines("chunkserver/store/reader.cc", 1, 1), ">     1  line 1\n      2  line 2\n");
  EXPECT_EQ(*lines("chunkserver/store/reader.cc", 9, 1), "      8  line 8\n>     9  line 9\n");
}

TEST_F(SourceSlice, SaysWhatIsNotThereAndReadsNothingOutsideOfTheTree) {
  EXPECT_EQ(lines("chunkserver/store/writer.cc", 5, 1).error().code(), Code::kNotFound);
  EXPECT_EQ(lines("chunkserver/store/reader.cc", 10, 1).error().code(), Code::kNotFound);
  EXPECT_EQ(lines("../secret", 1, 1).error().code(), Code::kNotFound);
  EXPECT_EQ(lines(directory + "/secret", 1, 1).error().code(), Code::kNotFound);
  EXPECT_EQ(lines("chunkserver/../../secret", 1, 1).error().code(), Code::kNotFound);
  EXPECT_EQ(lines("", 1, 1).error().code(), Code::kNotFound);
  EXPECT_EQ(lines("chunkserver", 1, 1).error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace kintsugi::cli

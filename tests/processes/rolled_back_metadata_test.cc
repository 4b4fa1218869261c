// Somebody restores an older copy of the metaserver's directory, and later finds the newer one.
#include <filesystem>
#include <thread>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;

class RolledBackMetadata : public ProcessCluster {
 protected:
  std::string metadata() const { return cluster_directory() + "/data/meta"; }
  void copy_metadata(const std::string& to) const {
    std::filesystem::copy(metadata(), to, std::filesystem::copy_options::recursive);
  }
  /// REQUIRES: the metaserver does not run.
  void put_back(const std::string& copy) const {
    std::filesystem::remove_all(metadata());
    std::filesystem::copy(copy, metadata(), std::filesystem::copy_options::recursive);
  }
  bool in_doubt() const { return kintsugi({"metadata", "status"}).out.find("IN DOUBT") != std::string::npos; }
};

TEST_F(RolledBackMetadata, IsNoticedAndTheNewerFilesAreThereWhenTheNewerMetadataIs) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  ASSERT_EQ(kintsugi({"put", make_file("old", 300'000, 1), "/old"}).exit_code, 0);
  kill9("metaserver");
  copy_metadata(path("older"));
  restart_missing();
  // Chunkservers are told where the metadata stands once the metaserver has run for a while.
  ASSERT_EQ(kintsugi({"metadata", "status"}).exit_code, 0);
  std::this_thread::sleep_for(seconds(12));
  ASSERT_EQ(kintsugi({"put", make_file("new", 300'000, 2), "/new"}).exit_code, 0);
  kill9("metaserver");
  copy_metadata(path("newer"));

  put_back(path("older"));
  restart_missing();
  ASSERT_TRUE(eventually([&] { return in_doubt(); }, seconds(10))) << kintsugi({"metadata", "status"}).out;
  EXPECT_EQ(kintsugi({"metadata", "status"}).exit_code, 1);
  EXPECT_NE(kintsugi({"fsck"}).exit_code, 0) << "files may be missing of which nobody knows any more";
  EXPECT_EQ(kintsugi({"get", "/old", path("old-back")}).exit_code, 0);
  EXPECT_EQ(read_file(path("old-back")), read_file(path("old")));
  EXPECT_NE(kintsugi({"quarantine", "empty"}).exit_code, 0) << "nothing is deleted while that is undecided";

  kill9("metaserver");
  put_back(path("newer"));
  restart_missing();
  ASSERT_TRUE(eventually([&] { return healthy(); }, seconds(20))) << kintsugi({"fsck"}).err;
  EXPECT_EQ(kintsugi({"metadata", "status"}).exit_code, 0) << kintsugi({"metadata", "status"}).out;
  EXPECT_EQ(kintsugi({"get", "/new", path("new-back")}).exit_code, 0);
  EXPECT_EQ(read_file(path("new-back")), read_file(path("new")));
}

TEST_F(RolledBackMetadata, IsGoneOnWithWhenAnOperatorAcceptsIt) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  kill9("metaserver");
  copy_metadata(path("older"));
  restart_missing();
  std::this_thread::sleep_for(seconds(12));
  ASSERT_EQ(kintsugi({"put", make_file("lost", 300'000, 3), "/lost"}).exit_code, 0);
  kill9("metaserver");
  put_back(path("older"));
  restart_missing();
  ASSERT_TRUE(eventually([&] { return in_doubt(); }, seconds(10)));
  EXPECT_EQ(kintsugi({"metadata", "accept"}).exit_code, 0);
  EXPECT_FALSE(in_doubt());
  EXPECT_NE(kintsugi({"stat", "/lost"}).exit_code, 0);
  EXPECT_EQ(kintsugi({"put", path("lost"), "/again"}).exit_code, 0);
  EXPECT_TRUE(healthy());
  const Outcome kept = kintsugi({"quarantine", "list"});
  EXPECT_NE(kept.out.find("written under other metadata"), std::string::npos) << kept.out;
  EXPECT_EQ(kintsugi({"quarantine", "empty"}).exit_code, 0);
  EXPECT_TRUE(eventually([&] { return kintsugi({"quarantine", "list"}).out == "0 chunks in quarantine\n"; },
                         seconds(5)));
}

}  // namespace
}  // namespace kintsugi::processes

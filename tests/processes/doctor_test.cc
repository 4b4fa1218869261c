// kintsugi doctor on a cluster of real processes: its file has what helps and nothing that is secret.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/processes/process_cluster.h"

namespace kintsugi::processes {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Doctor : public ProcessCluster {
 protected:
  Outcome doctor(const std::string& out) const {
    return kintsugi({"doctor", "--etc", cluster_directory() + "/etc", "--out", out});
  }
  /// All that a file of the doctor has, one after another.
  static std::string contents(const std::string& archive) {
    return run_command({"/bin/tar", "-xzOf", archive}).out;
  }
};

TEST_F(Doctor, PutsWhatHelpsIntoOneFileAndNoSecret) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string secret = read_file(cluster_directory() + "/secret").substr(0, 64),
                    out = path("doctor.tar.gz");
  ASSERT_EQ(secret.size(), 64u);
  const std::string key =
      "-----BEGIN PRIVATE KEY-----\nMIIBVgIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n";
  std::ofstream(cluster_directory() + "/log/metaserver.log", std::ios::app)
      << "somebody wrote the secret " << secret << " here\n"
      << key << "the last line\n";
  // The user of the daemons must not have root send away what is root's, nor keep it waiting.
  const std::string others = path("of-somebody-else");
  std::ofstream(others) << "not for them\n";
  const std::string logs = cluster_directory() + "/log/";
  for (const char* log : {"chunkserver-1.log", "chunkserver-1.activity.log"})
    fs::rename(logs + log, logs + log + ".moved");
  fs::create_symlink(others, logs + "chunkserver-1.log");
  ASSERT_EQ(::mkfifo((logs + "chunkserver-1.activity.log").c_str(), 0600), 0);
  const Outcome done = doctor(out);
  EXPECT_EQ(done.exit_code, 0) << done.out << done.err;
  EXPECT_THAT(done.out, HasSubstr(out + " has what helps"));
  EXPECT_EQ(contents(out).find("not for them"), std::string::npos);
  struct stat info{};
  ASSERT_EQ(::stat(out.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);

  const std::string listed = run_command({"/bin/tar", "-tzf", out}).out;
  for (const char* name :
       {"etc/metaserver.toml", "logs/chunkserver-2.log", "logs/metaserver.activity.log", "host/proc/meminfo",
        "host/df", "cluster/servers.json", "cluster/alarms.json", "daemons/chunkserver-3/metrics",
        "daemons/metaserver/debug-settings", "daemons/monitor/api-v1-servers", "findings"})
    EXPECT_THAT(listed, HasSubstr("kintsugi-doctor/" + std::string(name) + "\n"));
  const std::string all = contents(out);
  EXPECT_THAT(all, HasSubstr("somebody wrote the secret [removed] here\n"));
  EXPECT_THAT(all, HasSubstr("the last line\n"));
  EXPECT_THAT(all, HasSubstr("kintsugi_build_info{"));
  EXPECT_EQ(all.find(secret), std::string::npos);
  EXPECT_EQ(all.find("MIIBVgIBADANBgkqhkiG9w0BAQEFAASC"), std::string::npos);
  std::string bytes;
  for (size_t i = 0; i < secret.size(); i += 2)
    bytes += static_cast<char>(std::stoi(secret.substr(i, 2), nullptr, 16));
  EXPECT_EQ(all.find(bytes), std::string::npos);

  const Outcome again = doctor(out);
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err, HasSubstr("exists"));
}

TEST_F(Doctor, NamesADiskOfAnotherUserThanTheSecret) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives directories away";
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string disk = cluster_directory() + "/data/chunkserver-2";
  ASSERT_EQ(::chown(disk.c_str(), 1, 1), 0);
  const Outcome done = doctor(path("doctor.tar.gz"));
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.out,
              HasSubstr("problem  chunkserver-2    disk " + disk +
                        " belongs to another user than the daemon's secret: chown root " + disk + "\n"));
  EXPECT_THAT(done.out, Not(HasSubstr("chunkserver-1 belongs")));
}

TEST_F(Doctor, NamesADaemonThatIsDeadAndGoesOnWithoutAMetaserver) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  kill9("chunkserver-2");
  std::string said;
  const auto sees_it = [&] {
    const std::string out = path("killed.tar.gz");
    std::filesystem::remove(out);
    const Outcome done = doctor(out);
    said = done.out;
    return done.exit_code == 1 && said.find("problem  chunkserver-2    it is ") != std::string::npos;
  };
  EXPECT_TRUE(eventually(sees_it, std::chrono::seconds(30))) << said;
  EXPECT_THAT(said, HasSubstr("problem  chunkserver-2    it does not answer at "));
  EXPECT_THAT(said, Not(HasSubstr("chunkserver-3    it does not answer at ")));

  kill9("metaserver");
  const Outcome without = doctor(path("without.tar.gz"));
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.out, HasSubstr("problem  the cluster      the metaserver does not answer: "));
  EXPECT_THAT(contents(path("without.tar.gz")), HasSubstr("kintsugi_chunkserver_chunks"))
      << "what answers is collected all the same";
}

TEST_F(Doctor, FindsTheMetaserversPagesWhereverTheyAre) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  // One who only knows where the metaserver is: its settings are on another host.
  const std::string etc = path("etc");
  fs::create_directory(etc);
  fs::copy_file(cluster_directory() + "/etc/chunkserver-1.toml", etc + "/chunkserver-1.toml");
  const Outcome checked = kintsugi({"cluster", "check", "--etc", etc});
  EXPECT_THAT(checked.out, HasSubstr("the metaserver's clock is 0.0 s "));
  EXPECT_THAT(checked.out, Not(HasSubstr("no pages at")));
  const std::string out = path("elsewhere.tar.gz");
  const Outcome examined = kintsugi({"doctor", "--etc", etc, "--out", out});
  EXPECT_EQ(examined.exit_code, 0) << examined.out << examined.err;
  EXPECT_THAT(run_command({"/bin/tar", "-tzf", out}).out, HasSubstr("daemons/chunkserver-3/metrics\n"))
      << "the metaserver's pages name all daemons";
}

TEST_F(Doctor, ACheckAsksAMetaserverThatIsAwayForAllDaemonsAtOnce) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  kill9("metaserver");
  // Four daemons, each with a secret of its own.
  const std::string etc = path("etc");
  fs::create_directory(etc);
  std::string settings = read_file(cluster_directory() + "/etc/chunkserver-1.toml");
  const std::string secret = cluster_directory() + "/secret";
  for (int i = 1; i <= 4; ++i) {
    const std::string copy = path("secret-" + std::to_string(i));
    fs::copy_file(secret, copy);
    fs::permissions(copy, fs::perms::owner_read | fs::perms::owner_write);
    std::string own = settings;
    own.replace(own.find(secret), secret.size(), copy);
    std::ofstream(etc + "/chunkserver-" + std::to_string(i) + ".toml") << own;
  }
  const auto began = std::chrono::steady_clock::now();
  const Outcome checked = kintsugi({"cluster", "check", "--etc", etc});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  size_t asked = 0;
  for (size_t at = 0;
       (at = checked.out.find("the metaserver does not answer, which", at)) != std::string::npos; ++at)
    ++asked;
  EXPECT_EQ(asked, 4u) << checked.out;
  EXPECT_LT(took.count(), 2.0) << "2.3 s for each it was";
}

}  // namespace
}  // namespace kintsugi::processes

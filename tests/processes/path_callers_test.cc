// The command line works for the user that runs it, and its changes outlive a restart of the metaserver.
#include <filesystem>

#include <sys/stat.h>

#include "tests/processes/mounts.h"

namespace kintsugi::processes {
namespace {

using std::chrono::seconds;

constexpr const char* kUserId = "61004";

class PathCallers : public Mounts {
 protected:
  /// `kintsugi ...` as a user who has a copy of the secret.
  Outcome as_user(const std::vector<std::string>& arguments) const {
    std::vector<std::string> line{"/usr/bin/env",
                                  "KINTSUGI_SECRET_FILE=" + path("copy"),
                                  "/usr/bin/setpriv",
                                  std::string("--reuid=") + kUserId,
                                  std::string("--regid=") + kUserId,
                                  "--clear-groups"};
    const auto ours = command(arguments);
    line.insert(line.end(), ours.begin(), ours.end());
    return run_command(line, environment());
  }
  void give_the_user_the_secret() {
    ASSERT_EQ(::chmod(path(".").c_str(), 0711), 0);
    const Outcome copied = run_command({"/bin/bash", "-c",
                                        "cp \"$KINTSUGI_SECRET_FILE\" " + path("copy") + " && chown " +
                                            kUserId + " " + path("copy") + " && chmod 600 " + path("copy")},
                                       environment());
    ASSERT_EQ(copied.exit_code, 0) << copied.err;
  }
};

TEST_F(PathCallers, WhoHoldsTheSecretIsNotRootOnTheCommandLine) {
  const std::string mounted = start_and_mount();
  give_the_user_the_secret();
  const std::string file = make_file("file", 300'000, 1);
  ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
  ASSERT_EQ(kintsugi({"mkdir", "/tree"}).exit_code, 0);
  ASSERT_EQ(kintsugi({"put", file, "/tree/file"}).exit_code, 0);
  EXPECT_EQ(as_user({"ls", "/tree"}).exit_code, 0);
  const Outcome removed = as_user({"rm", "-r", "/tree"});
  EXPECT_EQ(removed.exit_code, 1);
  EXPECT_NE(removed.err.find("/tree"), std::string::npos) << removed.err;
  EXPECT_EQ(as_user({"mkdir", "/home"}).exit_code, 1);
  EXPECT_EQ(as_user({"put", file, "/file"}).exit_code, 1);
  EXPECT_EQ(as_user({"mv", "/tree/file", "/tree/other"}).exit_code, 1);
  EXPECT_EQ(kintsugi({"stat", "/tree/file"}).exit_code, 0) << "it is still there";

  ASSERT_EQ(kintsugi({"mkdir", "/open"}).exit_code, 0);
  ASSERT_EQ(::chmod((mounted + "/open").c_str(), 01777), 0);
  const Outcome put = as_user({"put", file, "/open/mine"});
  EXPECT_EQ(put.exit_code, 0) << put.err;
  EXPECT_EQ(as_user({"mkdir", "/open/dir"}).exit_code, 0);
  for (const char* name : {"/open/mine", "/open/dir"}) {
    struct stat found{};
    ASSERT_EQ(::stat((mounted + name).c_str(), &found), 0) << name;
    EXPECT_EQ(found.st_uid, 61004u) << name;
    EXPECT_EQ(found.st_gid, 61004u) << name;
  }
  ASSERT_EQ(::chmod((mounted + "/tree").c_str(), 0700), 0);
  EXPECT_EQ(as_user({"cat", "/tree/file"}).exit_code, 1);
  EXPECT_EQ(as_user({"ls", "/tree"}).exit_code, 1);
}

TEST_F(PathCallers, ChangesThatMeetARestartOfTheMetaserverSucceed) {
  start({"--chunkservers", "5", "--policy", "rs-3-2-64k", "--repair-delay", "0"});
  ASSERT_EQ(kintsugi({"mkdir", "/d"}).exit_code, 0);
  ASSERT_EQ(kintsugi({"mkdir", "/d/0"}).exit_code, 0);
  // A command that has never reached the metaserver waits three seconds for it (MetaLink), and says then that it does not answer. With
  // sanitizers a start may take longer: then the command is given again, unless it was carried out.
  constexpr const char* kScript = R"(
    kintsugi=$0
    change() {
      local carried_out=$1; shift
      until said=$("$kintsugi" "$@" 2>&1); do
        [[ $said == *"does not answer"* ]] || { echo "$*: $said" >&2; return 1; }
        until "$kintsugi" stat / > /dev/null 2>&1; do sleep 0.1; done
        if eval "$carried_out" > /dev/null 2>&1; then return 0; fi
      done
    }
    for i in $(seq 40); do
      change '"$kintsugi" stat /d/'$i mv /d/$((i-1)) /d/$i || exit 1
      change '"$kintsugi" stat /d/x' mkdir /d/x || exit 2
      change '! "$kintsugi" stat /d/x' rm -r /d/x || exit 3
    done)";
  BackgroundCommand changes({"/bin/bash", "-c", kScript, command({})[0]}, environment());
  for (int kill = 0; kill < 4 && changes.running(); ++kill) {
    kill9("metaserver");
    restart_missing();
  }
  EXPECT_EQ(changes.exit_code(), 0);
  EXPECT_EQ(kintsugi({"stat", "/d/40"}).exit_code, 0);
}

TEST_F(PathCallers, ADaemonThatIsNoMetaserverIsSaidToBeNone) {
  start({"--chunkservers", "5", "--policy", "rs-3-2-64k"});
  const Outcome servers = kintsugi({"server", "list", "--json"});
  const size_t at = servers.out.find("127.0.0.1:");
  ASSERT_NE(at, std::string::npos) << servers.out;
  const std::string address = servers.out.substr(at, servers.out.find('"', at) - at);
  std::vector<std::string> line{"/usr/bin/env", "KINTSUGI_META=" + address};
  for (const std::string& word : command({"ls", "/"}))
    line.push_back(word);
  const Outcome refused = run_command(line, environment());
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("is no metaserver"), std::string::npos) << refused.err;
}

TEST_F(PathCallers, EveryProgramSaysItsVersionAndItsHelp) {
  for (const char* name : {"kintsugi", "kintsugi-metaserver", "kintsugi-chunkserver", "kintsugi-monitor",
                           "kintsugi-repair-manager", "kintsugi-mount"}) {
    const std::string program = std::string(KINTSUGI_BINARIES) + "/" + name;
    const Outcome version = run_command({program, "--version"});
    EXPECT_EQ(version.exit_code, 0) << name << version.err;
    EXPECT_TRUE(version.out.starts_with(std::string(name) + " ")) << version.out;
    const size_t number = std::strlen(name) + 1;
    EXPECT_EQ(version.out.find_first_not_of("0123456789.", number), version.out.size() - 1)
        << "nothing but the version and the end of the line: " << version.out;
    const Outcome help = run_command({program, "-h"});
    EXPECT_EQ(help.exit_code, 0) << name << help.err;
    EXPECT_FALSE(help.out.empty()) << name;
  }
}

}  // namespace
}  // namespace kintsugi::processes

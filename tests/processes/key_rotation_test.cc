// A new secret for a cluster that is in use: nothing stops, nothing fails, and an interruption is gone on from.
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/processes/mounts.h"

namespace kintsugi::processes {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

/// Commands that put a file, get it back, compare it and remove it, again and again, each with a connection of its own.
class Load {
 public:
  using Command = std::function<Outcome(const std::vector<std::string>&)>;

  /// Names in the cluster begin with `prefix`, and so does that of what is got back.
  Load(Command kintsugi, std::string file, std::string prefix)
      : kintsugi_(std::move(kintsugi)),
        file_(std::move(file)),
        prefix_(std::move(prefix)),
        thread_([this] { run(); }) {}
  ~Load() { stop(); }

  void stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }
  size_t rounds() const { return rounds_; }
  /// What went wrong first. REQUIRES: it is stopped.
  const std::string& failure() const { return failure_; }

 private:
  void run() {
    const std::string expected = text_of(file_);
    while (!stopping_ && failure_.empty()) {
      const std::string name = prefix_ + std::to_string(rounds_), back = file_ + ".back" + prefix_.substr(1);
      for (const std::vector<std::string>& command :
           {std::vector<std::string>{"put", file_, name}, {"get", name, back, "--replace"}, {"rm", name}}) {
        const Outcome outcome = kintsugi_(command);
        if (outcome.exit_code != 0) failure_ += command.front() + ": " + outcome.err;
      }
      if (text_of(back) != expected) failure_ += "another file came back";
      ++rounds_;
    }
  }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const Command kintsugi_;
  const std::string file_, prefix_;
  std::atomic<bool> stopping_ = false;
  std::atomic<size_t> rounds_ = 0;
  std::string failure_;
  std::thread thread_;
};

class KeyRotation : public ProcessCluster {
 protected:
  std::string secret() const { return read_file(cluster_directory() + "/secret"); }
  Outcome as(const std::string& token, std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--token-file", path(token)});
    std::vector<std::string> line{"/usr/bin/env", "-u", "KINTSUGI_SECRET_FILE"};
    const std::vector<std::string> words = command(arguments);
    line.insert(line.end(), words.begin(), words.end());
    return run_command(line, environment());
  }
  void make_token(const std::string& name) const {
    const Outcome made = kintsugi({"token", "create", name, "--role", "write", "--out", path(name)});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  /// A command began and ended since this was called.
  static void await_rounds(const Load& load, size_t more) {
    const size_t until = load.rounds() + more;
    EXPECT_TRUE(eventually([&] { return load.rounds() >= until; }, seconds(60)));
  }
};

TEST_F(KeyRotation, StopsNothingAndFailsNothingWhileTheClusterIsUsed) {
  start({"--chunkservers", "4", "--policy", "rs-2-1-64k"});
  const std::string before = secret();
  make_token("before");
  const std::string file = make_file("file", 700'000, 1);
  const auto run = [this](const std::vector<std::string>& words) { return kintsugi(words); };
  Load load(run, file, "/load-"), other_load(run, make_file("small", 5'000, 2), "/small-");
  await_rounds(load, 2);

  const Outcome first = kintsugi({"key", "rotate"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("Step 1 of 3"));
  EXPECT_THAT(first.out, HasSubstr("Step 2 of 3"));
  EXPECT_THAT(first.out, HasSubstr("more minutes")) << "what the old one signed is good for an hour";
  EXPECT_THAT(first.out, HasSubstr("1 token made with the old secret will end with it: before"));
  EXPECT_THAT(secret(), HasSubstr("former " + before));
  const std::string status = kintsugi({"key", "status"}).out;
  EXPECT_THAT(status, HasSubstr("chunkserver-4"));
  EXPECT_THAT(status, HasSubstr("(former)"));
  EXPECT_THAT(status, HasSubstr("will end with it: before"));
  EXPECT_THAT(status, Not(HasSubstr(before.substr(0, 16)))) << "secrets are not shown";
  make_token("after");
  EXPECT_EQ(as("before", {"ls", "/"}).exit_code, 0);
  EXPECT_EQ(as("after", {"ls", "/"}).exit_code, 0);
  kill9("chunkserver-2");
  const Outcome away = kintsugi({"key", "rotate", "--force"});
  EXPECT_EQ(away.exit_code, 1) << "a server that is away would come back without the new secret";
  EXPECT_THAT(away.err, HasSubstr("chunkserver-2 cannot be asked"));
  restart_missing();
  ASSERT_TRUE(eventually([&] { return kintsugi({"key", "rotate"}).exit_code == 0; }, seconds(20)));
  await_rounds(load, 2);
  await_rounds(other_load, 2);

  const Outcome dropped = kintsugi({"key", "rotate", "--force"});
  ASSERT_EQ(dropped.exit_code, 0) << dropped.err;
  EXPECT_THAT(dropped.out, HasSubstr("1 token made with the old secret ended: before"));
  EXPECT_THAT(dropped.out, HasSubstr("Step 3 of 3"));
  EXPECT_THAT(dropped.out, HasSubstr("Done: all 7 daemons"));
  EXPECT_EQ(secret().size(), before.size());
  EXPECT_NE(secret(), before);
  await_rounds(load, 2);
  load.stop();
  other_load.stop();
  EXPECT_EQ(load.failure(), "");
  EXPECT_EQ(other_load.failure(), "");
  EXPECT_EQ(as("after", {"ls", "/"}).exit_code, 0);
  EXPECT_EQ(as("before", {"ls", "/"}).exit_code, 1);
  std::ofstream(path("old")) << before;
  ASSERT_EQ(::chmod(path("old").c_str(), 0600), 0);
  const Outcome old =
      run_command(command({"ls", "/"}), {environment().front(), "KINTSUGI_SECRET_FILE=" + path("old")});
  EXPECT_EQ(old.exit_code, 1);
  EXPECT_THAT(old.err, HasSubstr("cluster secret does not match"));
  EXPECT_TRUE(healthy());
}

TEST_F(KeyRotation, GoesOnFromWhereverItWasInterrupted) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string before = secret();
  for (const int after : {0, 2, 4, 6, 8, 10, 12, 15, 20, 30, 100}) {
    BackgroundCommand rotation(command({"key", "rotate"}), environment());
    std::this_thread::sleep_for(milliseconds(after));
    rotation.send(SIGKILL);
    rotation.exit_code();
    const Outcome listed = kintsugi({"ls", "/"});
    ASSERT_EQ(listed.exit_code, 0) << after << " " << listed.err << secret();
  }
  const Outcome resumed = kintsugi({"key", "rotate"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(secret(), HasSubstr("former " + before)) << "one rotation, and no second one inside of it";
  const Outcome done = kintsugi({"key", "rotate", "--force"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("Done"));
  // One whose first step was written, and what was left of the next one.
  const std::string file = cluster_directory() + "/secret";
  std::ofstream(file, std::ios::app) << "next " << std::string(64, 'c') << "\n";
  std::ofstream(file + ".new") << "half of a";
  const Outcome begun = kintsugi({"key", "rotate"});
  ASSERT_EQ(begun.exit_code, 0) << begun.err;
  EXPECT_THAT(begun.out, Not(HasSubstr("Step 1")));
  EXPECT_THAT(begun.out, HasSubstr("Step 2"));
  EXPECT_THAT(secret(), testing::StartsWith(std::string(64, 'c')));
}

TEST_F(KeyRotation, OfSeveralHostsTakesNoStepBeforeAllHaveTheFile) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  // As `cluster init` leaves it; the daemons' file is what somebody copies to their host.
  std::filesystem::create_directories(path("keys/hosts/one"));
  std::filesystem::create_directories(path("keys/hosts/client"));
  const std::string hosts_file = cluster_directory() + "/secret", made = path("keys/hosts/one/secret");
  std::filesystem::copy(hosts_file, path("keys/secret"));
  std::filesystem::copy(hosts_file, made);
  const auto rotate = [&](const std::string& option = "") {
    std::vector<std::string> words{"key", "rotate", "--keys", path("keys")};
    if (!option.empty()) words.push_back(option);
    return kintsugi(words);
  };
  const auto copy = [&] {
    std::filesystem::copy(made, hosts_file + ".copied");
    std::filesystem::rename(hosts_file + ".copied", hosts_file);
  };
  const std::string before = secret();
  const Outcome first = rotate();
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("Step 1 of 3"));
  EXPECT_THAT(first.out, HasSubstr("Now copy " + path("keys") + "/hosts/NAME/secret to /etc/kintsugi"));
  EXPECT_EQ(secret(), before) << "nobody has copied it";
  const std::string written = read_file(made);
  for (int i = 0; i < 2; ++i) {
    const Outcome early = rotate("--force");
    EXPECT_EQ(early.exit_code, 1);
    EXPECT_THAT(early.err, HasSubstr("chunkserver-1 does not accept the new secret yet"));
    EXPECT_EQ(read_file(made), written);
  }
  copy();
  const Outcome second = rotate();
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("Step 2 of 3"));
  EXPECT_THAT(rotate("--force").err, HasSubstr("metaserver does not use the new secret yet"));
  copy();
  // A file that is no secret changes nothing, and is told.
  std::ofstream(hosts_file) << "garbage\n";
  EXPECT_THAT(rotate("--force").err, HasSubstr("must hold 64 hex digits"));
  copy();
  const Outcome third = rotate("--force");
  ASSERT_EQ(third.exit_code, 0) << third.err;
  EXPECT_THAT(third.out, HasSubstr("Step 3 of 3"));
  EXPECT_THAT(rotate().err, HasSubstr("accepts another secret still"));
  copy();
  EXPECT_THAT(kintsugi({"key", "status"}).out, Not(HasSubstr("former")));
  EXPECT_EQ(kintsugi({"ls", "/"}).exit_code, 0);

  // A copy of the directory from an earlier time would bring the old secret back.
  std::ofstream(path("keys/secret")) << written;
  const Outcome stale = rotate("--force");
  EXPECT_EQ(stale.exit_code, 1);
  EXPECT_THAT(stale.err, HasSubstr("keys/secret is not the file of the secret that the cluster has now"));
  EXPECT_THAT(stale.err, Not(HasSubstr("copy")));
  EXPECT_EQ(read_file(made), read_file(hosts_file)) << "what is there for hosts stays as it is";
}

TEST_F(KeyRotation, ByATokenEndsNoTokenThatItRunsWithAndStandsInTheAuditLogStepByStep) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  const std::string before = secret();
  const auto rotate = [this](const std::string& token) {
    return kintsugi({"--token-file", path(token), "key", "rotate", "--force"});
  };
  for (const char* name : {"boss", "second"}) {
    const Outcome made = kintsugi({"token", "create", name, "--role", "admin", "--out", path(name)});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  const Outcome own = rotate("boss");
  EXPECT_EQ(own.exit_code, 1);
  EXPECT_THAT(own.err, HasSubstr("--force would end the token boss, which this command runs with"));
  EXPECT_EQ(std::count(own.err.begin(), own.err.end(), '\n'), 1) << own.err;
  EXPECT_EQ(secret(), before) << "nothing has been done";
  ASSERT_EQ(kintsugi({"key", "rotate"}).exit_code, 0);
  EXPECT_EQ(rotate("boss").exit_code, 1);
  EXPECT_EQ(as("second", {"token", "list"}).exit_code, 0) << "no other token was ended either";
  const Outcome made = kintsugi({"token", "create", "newer", "--role", "admin", "--out", path("newer")});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  ASSERT_TRUE(eventually([&] { return as("newer", {"key", "status"}).exit_code == 0; }, seconds(20)));
  const Outcome done = rotate("newer");
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("2 tokens made with the old secret ended: "));
  for (const char* daemon : {"metaserver", "chunkserver-2", "monitor"}) {
    std::string log;  // a thread of its own writes it
    EXPECT_TRUE(eventually(
        [&] {
          log = read_file(cluster_directory() + "/log/" + daemon + ".audit.log");
          return log.find("step 3 of a new secret") != std::string::npos;
        },
        seconds(5)));
    for (const char* step : {"step 1 of a new secret", "step 2 of a new secret", "step 3 of a new secret"})
      EXPECT_THAT(log, HasSubstr(step)) << daemon;
    EXPECT_THAT(log, Not(HasSubstr(before.substr(0, 16)))) << "secrets are not shown";
  }
}

class MountKeys : public Mounts {};

TEST_F(MountKeys, AMountOutlivesTheSecretAndTheTokenThatItBeganWith) {
  const std::string by_secret = start_and_mount();
  const auto make_token = [&](const std::string& name) {
    const Outcome made =
        kintsugi({"token", "create", name, "--role", "write", "--no-squash", "--out", path(name)});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  };
  make_token("token");
  const std::string by_token = mount({"-o", "token_file=" + path("token")});
  const auto works = [&](const std::string& name) {
    for (const std::string& directory : {by_secret, by_token}) {
      std::ofstream(directory + "/" + name, std::ios::binary) << std::string(300'000, name.front());
      EXPECT_EQ(read_file(directory + "/" + name), std::string(300'000, name.front())) << directory;
      EXPECT_EQ(std::filesystem::remove(directory + "/" + name), true);
    }
  };
  works("first");
  ASSERT_EQ(kintsugi({"key", "rotate"}).exit_code, 0);
  works("second");
  make_token("newer");
  std::filesystem::rename(path("newer"), path("token"));
  std::this_thread::sleep_for(seconds(2));
  works("third");
  const Outcome dropped = kintsugi({"key", "rotate", "--force"});
  ASSERT_EQ(dropped.exit_code, 0) << dropped.err;
  works("fourth");
  EXPECT_THAT(dropped.out, HasSubstr("1 token made with the old secret ended: token"));
}

TEST_F(MountKeys, AMountThatKeepsTheOldSecretIsNamedBeforeItIsCutOff) {
  start({"--chunkservers", "3", "--policy", "rs-2-1-64k"});
  std::filesystem::copy(cluster_directory() + "/secret", path("copy"));
  const std::string stale = mount({"-o", "secret_file=" + path("copy"), "-o", "io_timeout=3s"});
  EXPECT_THAT(kintsugi({"key", "status"}).out, Not(HasSubstr("old secret")));
  ASSERT_EQ(kintsugi({"key", "rotate"}).exit_code, 0);
  int number = 0;
  const auto is_named = [&] {
    std::ofstream(stale + "/file" + std::to_string(++number)) << "text";
    const Outcome status = kintsugi({"key", "status"});
    return status.out.find("still use the old secret: the secret at 127.0.0.1") != std::string::npos ||
           status.out.find("still uses the old secret: the secret at 127.0.0.1") != std::string::npos;
  };
  EXPECT_TRUE(eventually(is_named, seconds(40))) << kintsugi({"key", "status"}).out;
  const Outcome dropped = kintsugi({"key", "rotate", "--force"});
  EXPECT_EQ(dropped.exit_code, 0) << dropped.err;
  EXPECT_THAT(dropped.out, HasSubstr("the old secret: the secret at 127.0.0.1"));
  EXPECT_THAT(dropped.out, HasSubstr("They are cut off"));
}

}  // namespace
}  // namespace kintsugi::processes

#include "tests/processes/process_cluster.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kintsugi::processes {

namespace {

const std::string kBinaries = KINTSUGI_BINARIES;
const std::string kFindings = "sanitizer";  ///< how the names of the files begin that sanitizers write

pid_t spawn(const std::vector<std::string>& arguments, const std::vector<std::string>& environment, int out,
            int err) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if (out >= 0) dup2(out, STDOUT_FILENO);
  if (err >= 0) dup2(err, STDERR_FILENO);
  for (const std::string& variable : environment) {
    const size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> argv;
  for (const std::string& argument : arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// Processes from now on write what their sanitizer finds to files whose names begin with `path`. Nobody would see it
/// otherwise: a test kills daemons itself, and their output goes to several places.
void write_findings_to(const std::string& path) {
  for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS"}) {
    const char* before = std::getenv(name);
    setenv(name, ((before ? std::string(before) + ":" : "") + "log_path=" + path).c_str(), /*overwrite=*/1);
  }
}

}  // namespace

Outcome run_command(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  char out_name[] = "/tmp/kintsugi-out-XXXXXX", err_name[] = "/tmp/kintsugi-err-XXXXXX";
  const int out = mkstemp(out_name), err = mkstemp(err_name);
  int status = -1;
  waitpid(spawn(arguments, environment, out, err), &status, 0);
  close(out);
  close(err);
  Outcome outcome{exit_code_of(status), slurp(out_name), slurp(err_name)};
  unlink(out_name);
  unlink(err_name);
  return outcome;
}

BackgroundCommand::BackgroundCommand(const std::vector<std::string>& arguments,
                                     const std::vector<std::string>& environment) {
  const int null = open("/dev/null", O_WRONLY);
  pid_ = spawn(arguments, environment, null, null);
  close(null);
}

BackgroundCommand::~BackgroundCommand() {
  send(SIGKILL);
  exit_code();
}

bool BackgroundCommand::send(int signal) {
  return running() && kill(pid_, signal) == 0;
}

int BackgroundCommand::exit_code() {
  if (pid_ > 0) {
    waitpid(pid_, &status_, 0);
    pid_ = -1;
  }
  return exit_code_of(status_);
}

bool BackgroundCommand::running() {
  if (pid_ <= 0) return false;
  if (waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

void ProcessCluster::SetUp() {
  char name[] = "/tmp/kintsugi-processes-XXXXXX";
  directory_ = mkdtemp(name);
  write_findings_to(path(kFindings));
}

void ProcessCluster::TearDown() {
  run_command({kBinaries + "/kintsugi", "cluster", "stop", "--dir", cluster_directory()});
  if (HasFailure()) {
    const auto logs = run_command({"/bin/sh", "-c", "tail -n 20 " + cluster_directory() + "/log/*"});
    std::cerr << logs.out;
  }
  for (const auto& file : std::filesystem::directory_iterator(directory_))
    if (file.path().filename().string().starts_with(kFindings)) ADD_FAILURE() << slurp(file.path());
  std::filesystem::remove_all(directory_);
}

void ProcessCluster::start(const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {kBinaries + "/kintsugi", "cluster", "start", "--dir",
                                        cluster_directory()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Outcome outcome = run_command(arguments);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Outcome variables =
      run_command({"/bin/sh", "-c",
                   ". " + cluster_directory() + "/env; echo $KINTSUGI_META; echo $KINTSUGI_SECRET_FILE"});
  std::istringstream lines(variables.out);
  std::string meta, secret;
  std::getline(lines, meta);
  std::getline(lines, secret);
  environment_ = {"KINTSUGI_META=" + meta, "KINTSUGI_SECRET_FILE=" + secret};
}

std::vector<std::string> ProcessCluster::command(const std::vector<std::string>& arguments) const {
  std::vector<std::string> all = {kBinaries + "/kintsugi"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

void ProcessCluster::skip_without_sleds() const {
  const Outcome tried = kintsugi({"trace", "attach", "chunkserver-1", "--for", "1ms"});
  if (tried.err.find("KINTSUGI_SLEDS") != std::string::npos) GTEST_SKIP() << tried.err;
  ASSERT_EQ(tried.exit_code, 0) << tried.err;
}

Outcome ProcessCluster::kintsugi(const std::vector<std::string>& arguments) const {
  return run_command(command(arguments), environment_);
}

pid_t ProcessCluster::pid_of(const std::string& daemon) const {
  std::ifstream in(cluster_directory() + "/run/" + daemon + ".pid");
  pid_t pid = -1;
  in >> pid;
  return pid;
}

void ProcessCluster::send(const std::string& daemon, int signal) const {
  const pid_t pid = pid_of(daemon);
  ASSERT_GT(pid, 1) << "no pid file of " << daemon;
  ASSERT_EQ(kill(pid, signal), 0) << daemon;
}

void ProcessCluster::kill9(const std::string& daemon) const {
  const pid_t pid = pid_of(daemon);
  ASSERT_NO_FATAL_FAILURE(send(daemon, SIGKILL));
  // The daemon is not our child; it is gone when its /proc entry is, or is a zombie that its adopter has not
  // reaped. A process that ends gives back its memory first and its sockets, on which the next one listens, after it.
  const auto gone = [proc = "/proc/" + std::to_string(pid)] {
    std::error_code error;
    const std::filesystem::directory_iterator descriptors(proc + "/fd", error);
    return read_file(proc + "/cmdline").empty() &&
           (error || descriptors == std::filesystem::directory_iterator());
  };
  ASSERT_TRUE(eventually(gone, std::chrono::seconds(10)));
}

void ProcessCluster::restart_missing() {
  const Outcome outcome = kintsugi({"cluster", "start", "--dir", cluster_directory()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
}

bool ProcessCluster::eventually(const std::function<bool()>& condition, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + KINTSUGI_TIME_FACTOR * limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // pace of polling, not a wait for an effect
  }
  return true;
}

bool ProcessCluster::healthy() const {
  return kintsugi({"fsck", "/"}).exit_code == 0;
}

std::string ProcessCluster::page_of(const std::string& daemon, const std::string& page) const {
  const std::string config = read_file(cluster_directory() + "/etc/" + daemon + ".toml");
  const std::string key = "http_listen = \"";
  const size_t at = config.find(key) + key.size();
  return page_at(config.substr(at, config.find('"', at) - at), page);
}

std::string ProcessCluster::page_at(const std::string& address, const std::string& page) {
  std::string where = address;
  std::replace(where.begin(), where.end(), ':', '/');
  const std::string program =
      "exec 3<>/dev/tcp/" + where + "; printf 'GET " + page + " HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3";
  const std::string answer = run_command({"/bin/bash", "-c", program}).out;
  // With the end of the line before it, so that the first line is found as others are.
  const size_t head = answer.find("\r\n\r\n");
  return head == std::string::npos ? "" : answer.substr(head + 3);
}

uint64_t ProcessCluster::bytes_on_disks() const {
  uint64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cluster_directory(), ignored))
    if (entry.is_regular_file(ignored) && entry.path().string().find("data/chunkserver") != std::string::npos)
      bytes += entry.file_size(ignored);
  return bytes;
}

uint64_t ProcessCluster::bytes_open_in(pid_t pid, const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error)) {
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    if (error || !target.string().starts_with(directory)) continue;
    const auto size = std::filesystem::file_size(entry.path(), error);
    if (!error) bytes += size;
  }
  return bytes;
}

std::string ProcessCluster::make_file(const std::string& name, size_t bytes, unsigned seed) const {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> words(bytes / 8 + 1);
  for (uint64_t& word : words)
    word = random();
  const std::string file = path(name);
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()), std::streamsize(bytes));
  return file;
}

std::string ProcessCluster::read_file(const std::string& path) {
  return slurp(path);
}

}  // namespace kintsugi::processes

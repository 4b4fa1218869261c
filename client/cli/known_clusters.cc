#include "client/cli/known_clusters.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "client/cli/cluster_description.h"
#include "client/cli/local_daemon.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kPoll = std::chrono::milliseconds(5);
/// Separates directories, whose names may have anything else in them.
constexpr char kEnd = '\0';

/// The directory of the list; empty when the user has no place for it.
std::string state_directory() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return std::string(state) + "/kintsugi";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.local/state/kintsugi" : "";
}

/// Opens the file that is locked, which is not the list, since that is replaced. -1: there can be none.
int open_lock(const std::string& directory) {
  if (directory.empty()) return -1;
  std::error_code error;
  fs::create_directories(directory, error);
  return ::open((directory + "/clusters.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

}  // namespace

KnownClusters::KnownClusters(KnownClusters&& other) noexcept
    : lock_(std::exchange(other.lock_, -1)), addresses_(std::move(other.addresses_)) {}

KnownClusters::~KnownClusters() {
  if (lock_ >= 0) ::close(lock_);
}

Result<KnownClusters> KnownClusters::open(const std::string& directory, std::chrono::milliseconds patience) {
  const std::string state = state_directory();
  KnownClusters known(open_lock(state));
  if (known.lock_ < 0) return known;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (::flock(known.lock_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return KnownClusters(-1);
    if (std::chrono::steady_clock::now() >= end) {
      return Status{
          Code::kDeadlineExceeded,
          fmt::format("another `kintsugi cluster start` has held {}/clusters.lock for {} ms; does it run?",
                      state, patience.count())};
    }
    std::this_thread::sleep_for(kPoll);
  }
  if (!known.add(directory, state + "/clusters").ok()) return KnownClusters(-1);
  return known;
}

Status KnownClusters::add(const std::string& directory, const std::string& file) {
  const auto before = read_file(file);
  if (!before && before.error().code() != Code::kNotFound) return before.error();
  std::istringstream lines(before ? *before : "");
  std::string after = directory + kEnd;
  for (std::string other; std::getline(lines, other, kEnd);) {
    if (other == directory) continue;
    const auto description = ClusterDescription::read(other);
    // One that cannot be read now may be put right.
    if (!description && description.error().code() == Code::kNotFound) continue;
    after += other + kEnd;
    if (description) addresses_.merge(description->addresses());
  }
  return before && *before == after ? Status{} : write_file(file, after, 0600);
}

}  // namespace kintsugi::cli

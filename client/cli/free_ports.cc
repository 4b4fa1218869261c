#include "client/cli/free_ports.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace kintsugi::cli {
namespace {

constexpr int kAttempts = 1000;
constexpr int kFirstPort = 20000, kLastPort = 31999;

}  // namespace

Result<FreePorts> FreePorts::open(const std::string& directory, std::set<std::string> taken) {
  KINTSUGI_ASSIGN(KnownClusters others, KnownClusters::open(directory));
  return FreePorts(std::move(others), std::move(taken));
}

FreePorts::~FreePorts() {
  for (int fd : held_)
    ::close(fd);
}

Result<std::string> FreePorts::next() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto port =
        static_cast<uint16_t>(std::uniform_int_distribution<int>(kFirstPort, kLastPort)(random_));
    std::string text = fmt::format("127.0.0.1:{}", port);
    if (taken_.contains(text) || others_.addresses().contains(text)) continue;
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return status_from_errno(errno, "socket");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
      held_.push_back(fd);
      return text;
    }
    ::close(fd);
  }
  return Status{
      Code::kLimitExceeded,
      fmt::format("no port on 127.0.0.1 between {} and {} that is free and that no other cluster has",
                  kFirstPort, kLastPort)};
}

}  // namespace kintsugi::cli

#include "common/runtime/network.h"

#include <charconv>

#include <fmt/format.h>

#include "common/base/quote.h"

namespace kintsugi::runtime {

namespace {

constexpr size_t kMaxHostBytes = 255;  // the longest DNS name

Status malformed(std::string_view text, std::string_view why) {
  return {Code::kInvalidArgument, fmt::format("endpoint {}: {}", quoted(text, kMaxHostBytes + 8), why)};
}

}  // namespace

Result<Endpoint> Endpoint::parse(std::string_view text) {
  std::string_view host, port;
  if (text.starts_with('[')) {
    size_t end = text.find(']');
    if (end == std::string_view::npos) return malformed(text, "missing ']'");
    host = text.substr(1, end - 1);
    if (host.find(':') == std::string_view::npos)
      return malformed(text, "no IPv6 address between '[' and ']'");
    if (end + 1 >= text.size() || text[end + 1] != ':') return malformed(text, "missing port");
    port = text.substr(end + 2);
  } else {
    size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return malformed(text, "missing port");
    host = text.substr(0, colon);
    if (host.find(':') != std::string_view::npos) return malformed(text, "IPv6 addresses need brackets");
    port = text.substr(colon + 1);
  }
  if (host.empty()) return malformed(text, "missing host");
  if (host.size() > kMaxHostBytes) return malformed(text, "host is too long");
  for (char c : host) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '[' || c == ']' || c == '/' || c == 0x7f) {
      return malformed(text, "bad character in host");
    }
  }

  Endpoint endpoint;
  auto [last, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (port.empty() || error != std::errc() || last != port.data() + port.size()) {
    return malformed(text, "port must be a number from 0 to 65535");
  }
  endpoint.host = host;
  return endpoint;
}

std::string Endpoint::to_string() const {
  if (host.find(':') != std::string::npos) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

}  // namespace kintsugi::runtime

// Pages are served over TLS, to hosts of the cluster and to whom the guard of pages admits.
#include <gmock/gmock.h>

#include "common/http/http_server.h"
#include "common/http/kept_connection.h"
#include "tests/common/tls_rig.h"

namespace kintsugi::runtime {
namespace {

/// Returns once no coroutine of the server is left.
asio::awaitable<void> stop(http::HttpServer& http, SecureNode& server) {
  http.stop();
  TaskGroup turns(server.runtime);
  co_await turns.sleep_for(1s);
  co_await turns.join();
}

TEST(Tls, PagesAreServedAndReadOverIt) {
  CertificateFolder folder("cluster");
  rpc::LogCapture log;
  simulation::Simulation simulation(1);
  SecureNode server(simulation, kServer, folder.issue("store-1", {kServer})),
      client(simulation, kClient, folder.issue("user", {})), stranger(simulation, "10.0.0.3", {});
  const std::string page(300'000, 'x');
  const auto body = [&]() -> asio::awaitable<void> {
    http::HttpServer http(server.runtime);
    http.handle("/page", [&](std::string_view) { return http::Response{.body = page}; });
    CO_ASSERT_OK(http.start({kServer, 80}));
    const TimePoint deadline = client.runtime.clock.now() + 5s;
    http::KeptConnection reader(client.runtime, {kServer, 80});
    for (int i = 0; i < 2; ++i) {
      const auto answer = co_await reader.get("/page", deadline);
      EXPECT_TRUE(answer && *answer == page);
    }
    http::KeptConnection plain(stranger.runtime, {kServer, 80});
    const auto refused = co_await plain.get("/page", deadline);
    EXPECT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("400 Bad Request"));
    reader.close();
    plain.close();
    co_await stop(http, server);
  };
  simulation.run(body());
  EXPECT_EQ(log.count("http: closing connection from 10.0.0.3"), 1u);
}

/// Lets nobody in, and notes who was asked about.
class ClosedPages final : public http::PageGuard {
 public:
  Status admit(std::string_view path, std::string_view authorization, PeerProof shown) const override {
    asked.push_back(fmt::format("{} {} {}", path, authorization, static_cast<int>(shown)));
    return {Code::kPermissionDenied, "not for you"};
  }
  mutable std::vector<std::string> asked;
};

TEST(Tls, PagesAreForHostsOfTheClusterAndForOthersOnlyByTheirGuard) {
  CertificateFolder folder("cluster");
  simulation::Simulation simulation(1);
  SecureNode server(simulation, kServer, folder.issue("store-1", {kServer})),
      host(simulation, "10.0.0.3", folder.issue("store-2", {"10.0.0.3"})),
      client(simulation, kClient, folder.issue("user", {}));
  ClosedPages guard;
  const auto body = [&]() -> asio::awaitable<void> {
    http::HttpServer http(server.runtime);
    http.handle("/page", [](std::string_view) { return http::Response{.body = "inside"}; });
    http.guard_by(guard);
    CO_ASSERT_OK(http.start({kServer, 80}));
    const TimePoint deadline = client.runtime.clock.now() + 5s;
    http::KeptConnection of_host(host.runtime, {kServer, 80}), of_client(client.runtime, {kServer, 80});
    const auto seen = co_await of_host.get("/page", deadline);
    EXPECT_TRUE(seen && *seen == "inside") << (seen ? *seen : seen.error().message());
    EXPECT_TRUE(guard.asked.empty());
    // Pages that do not exist are not told apart either.
    for (const char* path : {"/page", "/nothing"}) {
      const auto refused = co_await of_client.get(path, deadline);
      EXPECT_FALSE(refused);
      EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("401 Unauthorized\": \"not for you\""));
    }
    of_host.close();
    of_client.close();
    co_await stop(http, server);
  };
  simulation.run(body());
  EXPECT_THAT(guard.asked, ::testing::ElementsAre("/page  1", "/nothing  1"));
}

}  // namespace
}  // namespace kintsugi::runtime

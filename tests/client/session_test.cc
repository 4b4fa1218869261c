// What a session asks of its user, and until when.
#include "client/lib/leases/session.h"

#include <gtest/gtest.h>

#include "tests/client/fake_cluster.h"
#include "tests/expect_ok.h"

namespace kintsugi::client {
namespace {

/// Counts how often it is asked or told something.
class CountingUser final : public LeaseUser {
 public:
  void recalled(const std::vector<uint64_t>&) override { ++calls; }
  void lost(const std::vector<uint64_t>&) override { ++calls; }
  uint32_t room_for_compaction() const override {
    ++calls;
    return 1;
  }
  void compact(const std::vector<uint64_t>&) override { ++calls; }
  void end_leases(const std::vector<uint64_t>&) override { ++calls; }
  void want_lease(uint64_t) override { ++calls; }
  void refused(uint64_t, const Status&) override { ++calls; }
  void written(const proto::Attributes&, bool) override { ++calls; }

  mutable size_t calls = 0;
};

TEST(Session, AsksItsUserNothingOnceThatIsForgotten) {
  FakeCluster cluster(1);
  simulation::SimNode node(cluster.simulation, "another");
  Options options;
  options.metaserver = cluster.meta.endpoint();
  options.memory_bytes = kMinMemoryBytes;
  Resources resources(node.runtime(), options, {});
  {
    CountingUser user;
    Session session(resources, user);
    KINTSUGI_EXPECT_OK(cluster.run(session.tell(Context{})));
    EXPECT_GT(user.calls, 0u);
    session.forget_user();
    const size_t before = user.calls;
    session.start(false);
    cluster.simulation.run_for(2 * Session::kKeepInterval);
    EXPECT_EQ(user.calls, before) << "its parts have been stopped, and must not begin anything";
    cluster.run(session.stop());
  }
  resources.background.request_stop();
  cluster.run(resources.rpc.stop());
  cluster.run(resources.background.join());
}

}  // namespace
}  // namespace kintsugi::client

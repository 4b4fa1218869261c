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
  void on_recalled(const std::vector<uint64_t>&) override { ++calls; }
  void on_lost(const std::vector<uint64_t>&) override { ++calls; }
  void end_leases(const std::vector<uint64_t>&) override { ++calls; }
  void want_lease(uint64_t) override { ++calls; }
  void on_refused(uint64_t, const Status&) override { ++calls; }
  void on_attributes_refused(uint64_t, const Status&) override { ++calls; }
  void on_written(const proto::Attributes&, bool) override { ++calls; }

  size_t calls = 0;
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
    const auto lose = [&](uint64_t inode) {
      const WriteLeases::Asking asking(session.leases());
      session.leases().granted(inode);
      cluster.meta.lost_leases = {inode};
    };
    lose(7);
    KINTSUGI_EXPECT_OK(cluster.run(session.tell(Context{})));
    EXPECT_EQ(user.calls, 1u);
    session.forget_user();
    lose(8);
    session.start(false);
    cluster.simulation.run_for(2 * Session::kKeepInterval);
    EXPECT_FALSE(session.has_lease(8)) << "nothing was told: this shows nothing";
    EXPECT_EQ(user.calls, 1u) << "its parts have been stopped, and must not begin anything";
    cluster.run(session.stop());
  }
  resources.background.request_stop();
  cluster.run(resources.rpc.stop());
  cluster.run(resources.background.join());
}

}  // namespace
}  // namespace kintsugi::client

package outside;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** The ACLs of a cluster through the Admin client of a super user. It decides nothing itself. */
public final class RemoteAuthorizer implements Authorizer {
    private final Supplier<Admin> admin;

    public RemoteAuthorizer(Supplier<Admin> admin) {
        this.admin = admin;
    }

    @Override
    public List<? extends CompletionStage<AclCreateResult>> createAcls(AuthorizableRequestContext context, List<AclBinding> bindings) {
        List<CompletionStage<AclCreateResult>> results = new ArrayList<>();
        for (AclBinding binding : bindings) {
            try {
                admin.get().createAcls(List.of(binding)).all().get(30, TimeUnit.SECONDS);
                results.add(CompletableFuture.completedFuture(AclCreateResult.SUCCESS));
            } catch (ExecutionException e) {
                results.add(CompletableFuture.completedFuture(new AclCreateResult((ApiException) e.getCause())));
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }
        return results;
    }

    @Override
    public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(AuthorizableRequestContext context, List<AclBindingFilter> filters) {
        List<CompletionStage<AclDeleteResult>> results = new ArrayList<>();
        for (AclBindingFilter filter : filters) {
            try {
                List<AclDeleteResult.AclBindingDeleteResult> gone = new ArrayList<>();
                for (AclBinding b : admin.get().deleteAcls(List.of(filter)).all().get(30, TimeUnit.SECONDS)) gone.add(new AclDeleteResult.AclBindingDeleteResult(b));
                results.add(CompletableFuture.completedFuture(new AclDeleteResult(gone)));
            } catch (ExecutionException e) {
                results.add(CompletableFuture.completedFuture(new AclDeleteResult((ApiException) e.getCause())));
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }
        return results;
    }

    @Override
    public Iterable<AclBinding> acls(AclBindingFilter filter) {
        try {
            return admin.get().describeAcls(filter).values().get(30, TimeUnit.SECONDS);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo info) {
        return Map.of();
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions) {
        throw new UnsupportedOperationException("the cluster decides");
    }

    @Override public void configure(Map<String, ?> configs) { }
    @Override public void close() { }
}

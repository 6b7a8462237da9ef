(* The step of a partition with cohorts that last, as a model, and that it has the swap condition.

   A partition takes one step after the other, over all runs that continue each other: step n is at the window end
   ends n (times may go back where a run begins with mended rows), and may be a closing one, in which what waited rests.
   A row says when its own window ended, and comes in some step, late or not; it may go out as long as its own end
   and delay are not over. What groups people (found) and what merges cohorts (merge) is any function whatever of what it
   is given: of the pool, in an order that arrival has no part in; and of who is in which cohort and how many rows and people of each are here. So nothing here speaks of boxes, losses or searches. *)
From mathcomp Require Import ssreflect ssrfun ssrbool eqtype ssrnat seq choice fintype.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Step.
Variables (person payload : eqType).
(* Everybody who ever has a row, in canonical order. *)
Variable people : seq person.
(* Of the policy: the floor, people a cohort, how many newcomers are an intake where so many have entered, and how many
   windows a row may wait. *)
Variables (k cohort_size : nat) (intake : nat -> nat) (delay : nat).

(* When each step is, and which are closing ones. *)
Variables (ends : nat -> nat) (closing : pred nat).

(* In which step a cohort was founded, and which of that intake it is. *)
Definition cohort := (nat * nat)%type.
(* The end of its own window, and what it says. *)
Definition row := (nat * payload)%type.
Definition deadline (r : row) := r.1 + delay.
(* Of each cohort with rows here: how many rows, how many people; and the group it is put into. *)
Definition counts := seq (cohort * (nat * nat)).
Definition groups := seq (cohort * nat).

Variable found : nat -> seq person -> person -> nat.
Variable merge : nat -> seq (option cohort) -> groups -> counts -> cohort -> nat.

(* Which rows that would go out are rejected for good: any rule whatever, of what it remembers, the step, who would be in
   which cohort, and the rows of these people. It says what it remembers if there is a release, and of each row whether it goes. *)
Record rule := Rule {
  memory : Type;
  at_first : memory;
  decide : memory -> nat -> (person -> option cohort) -> (person -> seq row) -> memory * (person -> pred row) }.
Variable drop : rule.

Record state := State {
  home : person -> option cohort;
  was_seen : pred person;
  waits : person -> seq row;
  cohorts : seq cohort;
  last : groups;
  recalled : memory drop }.

Definition start := State (fun=> None) (fun=> false) (fun=> [::]) [::] [::] (at_first drop).

(* What the reader is given beside the rows: who is in which cohort by now, and which cohorts are one group. *)
Definition seen_by_all := (seq (option cohort) * option groups)%type.
(* What happened to the rows of each person: out, and in which group; rejected. Nobody sees who would have been in which
   cohort, where no release came of it. *)
Record step_result := Result {
  after : state; public : seen_by_all; out : person -> seq (nat * row); rejected : person -> seq row;
  would_be : person -> option cohort }.

Definition knows (h : person -> option cohort) p := h p != None.
Definition is_in (c : cohort) (h : person -> option cohort) p := h p == Some c.

Definition rows_of h (here : person -> seq row) c := sumn [seq size (here p) | p <- people & is_in c h p].
Definition active_of h (here : person -> seq row) c := count (fun p => is_in c h p && (here p != [::])) people.
Definition counts_of h here (cs : seq cohort) : counts :=
  [seq (c, (rows_of h here c, active_of h here c)) | c <- cs & rows_of h here c != 0].

Definition group_of (g : groups) (c : cohort) := nth 0 (unzip2 g) (index c (unzip1 g)).

Section Act.
Variables (s : state) (n : nat) (new : person -> seq row).
Let e := ends n.

(* Whether anything happens: rows came, or the time of one is over. *)
Definition acts :=
  has (fun p => (new p != [::]) || ~~ closing n && has (fun r => deadline r <= e) (waits s p)) people.

(* Rows that may still go out, and those whose time is over. *)
Definition at_hand p := if closing n then new p else waits s p ++ new p.
Definition in_time r := closing n || (e <= deadline r).
Definition here p := filter in_time (at_hand p).
Definition late p := filter (predC in_time) (at_hand p).
Definition seen_now p := was_seen s p || has in_time (new p).
Definition newcomer p := (home s p == None) && seen_now p.
Definition pool := filter newcomer people.
(* A newcomer's row leaves now or never. *)
Definition must := has (fun p => newcomer p && has (fun r => deadline r <= e) (here p)) people.
Definition active h (rows : person -> seq row) := count (fun p => knows h p && (rows p != [::])) people.
Definition entered := count (knows (home s)) people.
(* By counts and deadline alone, and only where a release comes of it. *)
Definition enters :=
  [&& maxn cohort_size k <= size pool,
      k <= count (fun p => (knows (home s) p || newcomer p) && (here p != [::])) people &
      (intake entered <= size pool) || must].
Definition cohort_of p : cohort := (n, found n pool p).
(* Who would be in which cohort. It comes to be only where enough people are left of whom rows go out. *)
Definition tried p := if enters && newcomer p then Some (cohort_of p) else home s p.
Definition asked p := if knows tried p then here p else [::].
Definition decided := decide (recalled s) n tried asked.
Definition left p := filter (decided.2 p) (here p).
Definition dropped p := filter (predC (decided.2 p)) (here p).
Definition released := k <= active tried left.
Definition home_now p := if released then tried p else home s p.
(* found numbers an intake's cohorts from 0; that some numbers may have nobody changes nothing. *)
Definition cohorts_now := cohorts s ++ (if enters && released then [seq (n, j) | j <- iota 0 (size pool)] else [::]).
Definition made : groups :=
  let here := counts_of home_now left cohorts_now in [seq (c.1, merge n (map home_now people) (last s) here c.1) | c <- here].
Definition goes p := released && knows home_now p.
Definition label p := if home_now p is Some c then group_of made c else 0.

Definition act : step_result :=
  Result
    (State home_now seen_now
       (fun p => (if closing n then waits s p else [::]) ++
                 (if goes p then [::] else [seq r <- here p | e < deadline r]))
       cohorts_now (if released && ~~ closing n then made else last s)
       (if released then decided.1 else recalled s))
    (map home_now people, if released then Some made else None)
    (fun p => if goes p then [seq (label p, r) | r <- left p] else [::])
    (fun p => late p ++ (if goes p then dropped p else [seq r <- here p | deadline r <= e]))
    tried.

End Act.

Definition rest (s : state) : step_result := Result s (map (home s) people, None) (fun=> [::]) (fun=> [::]) (home s).

Definition step (s : state) n new := if acts s n new then act s n new else rest s.

(* A trail says what rows of a person come in each step. A run takes the steps one after the other. *)
Definition trail := nat -> seq row.
Definition arrives (w : person -> trail) n p := w p n.

Fixpoint state_at (w : person -> trail) n :=
  if n is n'.+1 then after (step (state_at w n') n (arrives w n)) else start.
Definition result_at w n := step (state_at w n.-1) n (arrives w n).

Definition view w steps := [seq public (result_at w n) | n <- iota 1 steps].
Definition bundle w steps p := [seq (n, out (result_at w n) p) | n <- iota 1 steps].

Definition tried_at w n := would_be (result_at w n).

(* --- Who is home stays home, and a cohort is founded once. --- *)

Lemma home_kept s e new p c : home s p = Some c -> home (after (step s e new)) p = Some c.
Proof. by rewrite /step => h; case: ifP => //= _; rewrite /home_now /tried /newcomer h andbF if_same. Qed.

Lemma home_new s e new p c :
  home s p = None -> home (after (step s e new)) p = Some c -> c.1 = e.
Proof.
rewrite /step => h; case: ifP => _ /=; rewrite ?h // /home_now /tried; case: ifP => _; last by rewrite h.
by case: ifP => _; [case=> <- | rewrite h].
Qed.

Lemma public_home s e new : (public (step s e new)).1 = map (home (after (step s e new))) people.
Proof. by rewrite /step; case: ifP. Qed.

Lemma stays w e d p c : home (state_at w e) p = Some c -> home (state_at w (d + e)) p = Some c.
Proof. by move=> h; elim: d => //= d; exact: home_kept. Qed.

Lemma founded_by w e p c : home (state_at w e) p = Some c -> c.1 <= e.
Proof.
elim: e c => [|e IH] c //; case h: (home (state_at w e) p) => [d|].
  by rewrite /= (home_kept _ _ h) => -[<-]; apply: leqW (IH _ h).
by move/(home_new h) ->.
Qed.

(* Whoever is in one cohort in the end came into it at one time. *)
Lemma always_together w steps e p q c :
  e <= steps -> home (state_at w steps) p = Some c -> home (state_at w steps) q = Some c ->
  home (state_at w e) p = home (state_at w e) q.
Proof.
move=> le hp hq.
have late_enough x y : home (state_at w steps) y = Some c -> home (state_at w e) x = Some c ->
  home (state_at w e) y = Some c.
  move=> hy hx; case he: (home (state_at w e) y) => [d|].
    by rewrite -hy -(subnK le) (stays _ he).
  have := founded_by hx; move: hy; rewrite -(subnK le); elim: (steps - e) => [|n IH]; first by rewrite he.
  case hn: (home (state_at w (n + e)) y) => [d|].
    by rewrite addSn /= (home_kept _ _ hn) => -[ed]; rewrite -ed in IH *; exact: IH.
  by rewrite addSn /= => /(home_new hn) ->; rewrite ltnNge leq_addl.
have is_c x d : home (state_at w steps) x = Some c -> home (state_at w e) x = Some d -> d = c.
  by move=> hx /(stays (steps - e)); rewrite subnK // hx => -[].
case ep: (home (state_at w e) p) => [d|].
  by have := is_c _ _ hp ep; move=> ed; move: ep; rewrite ed => ep; rewrite (late_enough p q).
case eq: (home (state_at w e) q) => [d|] //.
by have ed := is_c _ _ hq eq; move: eq; rewrite ed => eq; rewrite -ep (late_enough q p).
Qed.

(* --- The swap condition. --- *)

(* A rule is fair if it decides the same of everybody when people of a cohort exchange all that they have: what it remembers
   then is like what it remembers else. *)
Definition fair (r : rule) := exists like : (person -> person) -> memory r -> memory r -> Prop,
  (forall s, like s (at_first r) (at_first r)) /\
  forall s a b n h h' here here', perm_eq [seq s p | p <- people] people -> like s a b ->
    h' =1 h -> (forall p, h (s p) = h p) -> (forall p, here' p = here (s p)) ->
    like s (decide a n h here).1 (decide b n h' here').1 /\
    forall p, (decide b n h' here').2 p =1 (decide a n h here).2 (s p).

Section Swap.
Variables (like : (person -> person) -> memory drop -> memory drop -> Prop) (s : person -> person).
Hypothesis like_first : like s (at_first drop) (at_first drop).
Hypothesis like_next : forall a b n h h' here here', like s a b ->
  h' =1 h -> (forall p, h (s p) = h p) -> (forall p, here' p = here (s p)) ->
  like s (decide a n h here).1 (decide b n h' here').1 /\
  forall p, (decide b n h' here').2 p =1 (decide a n h here).2 (s p).
Hypothesis s_people : perm_eq [seq s p | p <- people] people.

Lemma count_swap (P : pred person) : count (fun p => P (s p)) people = count P people.
Proof. by rewrite -(count_map s P) (permP s_people). Qed.

Lemma has_swap (P : pred person) : has (fun p => P (s p)) people = has P people.
Proof. by rewrite !has_count count_swap. Qed.

Lemma sumn_swap (f : person -> nat) (P : pred person) :
  sumn [seq f (s p) | p <- people & P (s p)] = sumn [seq f p | p <- people & P p].
Proof.
have -> : [seq f (s p) | p <- people & P (s p)] = [seq f q | q <- [seq s p | p <- people] & P q].
  by rewrite filter_map -map_comp.
exact/perm_sumn/perm_map/perm_filter.
Qed.

(* The other world's state: the same cohorts, everything else of p is what s p had. *)
Record mirrors (a b : state) := Mirrors {
  m_home : home b =1 home a;
  m_seen : forall p, was_seen b p = was_seen a (s p);
  m_waits : forall p, waits b p = waits a (s p);
  m_cohorts : cohorts b = cohorts a;
  m_last : last b = last a;
  m_recalled : like s (recalled a) (recalled b) }.

(* Whom s exchanges are in one cohort, or both in none. *)
Definition together (a : state) := forall p, home a (s p) = home a p.

Lemma acts_mirror a b e new new' :
  mirrors a b -> (forall p, new' p = new (s p)) -> acts b e new' = acts a e new.
Proof.
move=> m n; rewrite /acts -[RHS]has_swap.
by apply: eq_has => p; rewrite n (m_waits m).
Qed.

Lemma counts_mirror h here here' cs :
  (forall p, h (s p) = h p) -> (forall p, here' p = here (s p)) -> counts_of h here' cs = counts_of h here cs.
Proof.
move=> hs hh.
have r c : rows_of h here' c = rows_of h here c.
  rewrite /rows_of -[RHS](sumn_swap (fun p => size (here p))); congr sumn.
  rewrite (@eq_filter _ _ (is_in c h \o s)); last by move=> p; rewrite /is_in /= hs.
  by apply: eq_map => p; rewrite hh.
have a c : active_of h here' c = active_of h here c.
  by rewrite /active_of -[RHS]count_swap; apply: eq_count => p; rewrite /is_in hs hh.
rewrite /counts_of (@eq_filter _ _ (fun c => rows_of h here c != 0)); last by move=> c; rewrite r.
by apply: eq_map => c; rewrite r a.
Qed.

Record agrees (x y : step_result) := Agrees {
  a_after : mirrors (after x) (after y);
  a_public : public y = public x;
  a_out : forall p, out y p = out x (s p);
  a_rejected : forall p, rejected y p = rejected x (s p);
  a_would_be : would_be y =1 would_be x }.

Lemma step_mirror a b e new new' :
  mirrors a b -> (forall p, new' p = new (s p)) -> together a ->
  (forall p, would_be (step a e new) (s p) = would_be (step a e new) p) ->
  agrees (step a e new) (step b e new').
Proof.
move=> m n ta; rewrite /step (acts_mirror _ m n); case: ifP => _; last first.
  by move=> _; split=> //= [|p]; rewrite ?(m_home m) //; congr pair; apply: eq_map => p; exact: m_home.
move=> /= tb.
have hand' p : at_hand b e new' p = at_hand a e new (s p) by rewrite /at_hand (m_waits m) n.
have here' p : here b e new' p = here a e new (s p) by rewrite /here hand'.
have late' p : late b e new' p = late a e new (s p) by rewrite /late hand'.
have seen' p : seen_now b e new' p = seen_now a e new (s p) by rewrite /seen_now (m_seen m) n.
have new_s p : newcomer b e new' p = newcomer a e new (s p) by rewrite /newcomer (m_home m) seen' ta.
have must' : must b e new' = must a e new.
  by rewrite /must -[RHS]has_swap; apply: eq_has => p; rewrite new_s here'.
have size' : size (pool b e new') = size (pool a e new).
  by rewrite /pool !size_filter -[RHS]count_swap; apply: eq_count => p; rewrite new_s.
have entered' : entered b = entered a by apply: eq_count => p; rewrite /knows (m_home m).
have enters' : enters b e new' = enters a e new.
  rewrite /enters size' must' entered'; congr (_ && ((k <= _) && _)).
  by rewrite -[RHS]count_swap; apply: eq_count => p; rewrite new_s here' /knows (m_home m) ta.
(* Where people would enter, who is in the pool is the same in both worlds. *)
have same_pool : enters a e new -> newcomer b e new' =1 newcomer a e new.
  move=> en p; rewrite new_s; have := tb p; rewrite /tried en /=.
  case ns: (newcomer a e new (s p)); case np: (newcomer a e new p) => //.
    by move=> h; move: ns; rewrite /newcomer ta -h.
  by move=> h; move: np; rewrite /newcomer -ta h.
have pool' : enters a e new -> pool b e new' = pool a e new by move=> /same_pool en; apply: eq_filter.
have tried' : tried b e new' =1 tried a e new.
  move=> p; rewrite /tried enters'; case: (boolP (enters a e new)) => [en|_] /=; last exact: m_home.
  by rewrite same_pool // /cohort_of pool' // (m_home m).
have asked' p : asked b e new' p = asked a e new (s p) by rewrite /asked /knows tried' tb here'.
have [recalled' goes_on'] := like_next e (m_recalled m) tried' tb asked'.
rewrite -/(decided a e new) -/(decided b e new') in recalled' goes_on'.
have left' p : left b e new' p = left a e new (s p) by rewrite /left here'; apply: eq_filter; exact: goes_on'.
have dropped' p : dropped b e new' p = dropped a e new (s p).
  by rewrite /dropped here'; apply: eq_filter => r /=; rewrite goes_on'.
have released' : released b e new' = released a e new.
  rewrite /released /active; congr (_ <= _); rewrite -[RHS]count_swap; apply: eq_count => p.
  by rewrite left' /knows tried' tb.
have home' : home_now b e new' =1 home_now a e new.
  by move=> p; rewrite /home_now released' tried' (m_home m).
have th p : home_now a e new (s p) = home_now a e new p by rewrite /home_now tb ta.
have cohorts' : cohorts_now b e new' = cohorts_now a e new.
  by rewrite /cohorts_now (m_cohorts m) enters' released' size'.
have counts' : counts_of (home_now b e new') (left b e new') (cohorts_now b e new') =
               counts_of (home_now a e new) (left a e new) (cohorts_now a e new).
  rewrite cohorts' -(counts_mirror _ th left'); rewrite /counts_of /rows_of /active_of.
  have i c : is_in c (home_now b e new') =1 is_in c (home_now a e new) by move=> p; rewrite /is_in home'.
  have r c : sumn [seq size (left b e new' p) | p <- people & is_in c (home_now b e new') p] =
             sumn [seq size (left b e new' p) | p <- people & is_in c (home_now a e new) p].
    by congr (sumn (map _ _)); apply: eq_filter.
  rewrite (@eq_filter _ _ (fun c => sumn [seq size (left b e new' p) | p <- people & is_in c (home_now a e new) p] != 0)).
    by apply: eq_map => c; rewrite r; congr (_, (_, _)); apply: eq_count => p; rewrite i.
  by move=> c; rewrite r.
have made' : made b e new' = made a e new by rewrite /made counts' (m_last m) (eq_map home').
have goes' p : goes b e new' p = goes a e new (s p) by rewrite /goes released' /knows home' th.
have label' p : label b e new' p = label a e new (s p) by rewrite /label home' th made'.
split=> /=.
- split=> //= [p||]; first by rewrite (m_waits m) goes' here'.
    by rewrite released' made' (m_last m).
  by rewrite released'; case: ifP => _ //; exact: m_recalled m.
- by rewrite released' made'; congr pair; apply: eq_map.
- by move=> p; rewrite goes' left' label'.
- by move=> p; rewrite late' goes' here' dropped'.
- exact: tried'.
Qed.

Theorem run_mirror_like w w' steps :
  (forall p, w' p = w (s p)) -> (forall e, e <= steps -> together (state_at w e)) ->
  (forall e, 0 < e <= steps -> forall p, tried_at w e (s p) = tried_at w e p) ->
  mirrors (state_at w steps) (state_at w' steps) /\
  forall e, 0 < e <= steps -> agrees (result_at w e) (result_at w' e).
Proof.
move=> ww; elim: steps => [_ _|n IH t u]; first by split=> [|[]]; first by split.
have [||m ag] := IH.
- by move=> e le; apply: t; exact: leqW.
- by move=> e /andP[e0 le]; apply: u; rewrite e0 leqW.
have new p : arrives w' n.+1 p = arrives w n.+1 (s p) by rewrite /arrives ww.
have ag_n : agrees (result_at w n.+1) (result_at w' n.+1).
  by apply: step_mirror m new (t n (leqnSn n)) _; exact: u n.+1 (leqnn _).
split; first exact: a_after ag_n.
by move=> e /andP[e0]; rewrite leq_eqVlt => /orP[/eqP -> //|le]; apply: ag; rewrite e0.
Qed.

End Swap.

(* The swap condition with a rule for rows that are rejected for good. Whom s exchanges are together also in each intake that
   was tried and came to nothing, for too few people were left of whom rows would go out: what that hangs on is who had
   which rows, and where founding would have put them. *)
Theorem run_mirror s w w' steps : fair drop ->
  perm_eq [seq s p | p <- people] people -> (forall p, w' p = w (s p)) ->
  (forall e, e <= steps -> together s (state_at w e)) ->
  (forall e, 0 < e <= steps -> forall p, tried_at w e (s p) = tried_at w e p) ->
  forall e, 0 < e <= steps -> exists like, agrees like s (result_at w e) (result_at w' e).
Proof.
case=> like [like_first like_next] sp ww t u e le; exists like.
have next a b n h h' here here' := @like_next s a b n h h' here here' sp.
by have [_ ag] := run_mirror_like (like_first s) next sp ww t u; exact: ag.
Qed.

(* An intake that was tried and came to nothing. *)
Definition undone w n :=
  let s := state_at w n.-1 in
  [&& acts s n (arrives w n), enters s n (arrives w n) & ~~ released s n (arrives w n)].

(* Where none did, who would be together is. *)
Lemma tried_done w n : ~~ undone w n.+1 -> tried_at w n.+1 =1 home (state_at w n.+1).
Proof.
rewrite /undone /tried_at /result_at /= /step => un p; move: un; case: ifP => //= _.
by rewrite /home_now; case: (released _ _ _) => //; rewrite andbT => /negPf un; rewrite /tried un.
Qed.

(* The floor of an intake: where found puts at least cohort_size people together, a cohort has as many. *)
Definition founds_enough := forall e ps p, p \in ps -> cohort_size <= count (fun q => found e ps q == found e ps p) ps.

Theorem cohort_floor w steps p c :
  founds_enough -> p \in people -> home (state_at w steps) p = Some c ->
  cohort_size <= count (fun q => home (state_at w steps) q == Some c) people.
Proof.
move=> enough pin; elim: steps => [//|n IH] /=; rewrite /step; case: ifP => ac /=; last exact: IH.
set st := state_at w n; set new := arrives w n.+1; have IH' := IH.
rewrite /home_now; case: ifP => re; last exact: IH.
case hp: (tried st n.+1 new p) => [d|] // [dc]; rewrite dc in hp.
case pn: (enters st n.+1 new && newcomer st n.+1 new p).
  have /andP[en np] := pn; move: (hp); rewrite /tried pn => -[cp].
  apply: leq_trans (enough n.+1 (pool st n.+1 new) p _) _; first by rewrite mem_filter np.
  rewrite /pool count_filter; apply: sub_count => q /= /andP[/eqP fq nq].
  by rewrite /tried en nq /cohort_of -/(pool st n.+1 new) fq -cp.
apply: leq_trans (IH' _) _; first by move: hp; rewrite /tried pn.
apply: sub_count => q /= /eqP hq.
by rewrite /tried /newcomer hq andbF.
Qed.

(* A rule that lets everything go is fair, and no intake comes to nothing. *)
Definition everything := @Rule unit tt (fun _ _ _ _ => (tt, fun _ _ => true)).
End Step.

Section Everything.
Variables (person payload : eqType) (people : seq person) (k cohort_size : nat) (intake : nat -> nat) (delay : nat).
Variables (ends : nat -> nat) (closing : pred nat) (found : nat -> seq person -> person -> nat).
Variable merge : nat -> seq (option cohort) -> groups -> counts -> cohort -> nat.

Lemma everything_fair : fair people (everything person payload).
Proof. by exists (fun _ _ _ => True). Qed.

Lemma nothing_undone w n :
  ~~ undone people k cohort_size intake delay ends closing found merge (everything person payload) w n.
Proof.
rewrite /undone; set s := state_at _ _ _ _ _ _ _ _ _ _ _ _; set new := arrives _ _.
apply/negP => /and3P[_ en]; rewrite /released /active -ltnNge ltnNge => /negP; apply.
have /and3P[_ enough _] := en; apply: leq_trans enough _; apply: sub_count => p /= /andP[in_ some].
rewrite /left filter_predT some andbT /knows /tried en /=.
by case: (newcomer _ _ _ _ _ _ p) in_ => //; rewrite orbF.
Qed.
End Everything.
